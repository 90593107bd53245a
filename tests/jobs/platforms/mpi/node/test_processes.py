"""What a job leaves on a node is gone before the next one begins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node.facts import clear_memory, end_processes

pytestmark = pytest.mark.alone  # another test's job would count as one that still runs


def test_what_ranks_left_in_memory_is_removed_once_no_job_runs(tmp_path: Path) -> None:
    memory, elsewhere = tmp_path / "shm", tmp_path / "elsewhere"
    (memory / "session").mkdir(parents=True)
    (memory / "session" / "segment").touch()
    (memory / "torch_1").touch()
    elsewhere.mkdir()
    (memory / "link").symlink_to(elsewhere)
    job = f"glue-{os.getpid()}"
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "SLIPWAY_JOB": job}):
        clear_memory(os.geteuid(), memory)
        assert {path.name for path in memory.iterdir()} == {"session", "torch_1", "link"}
        end_processes(job, 1.0)
    clear_memory(os.geteuid(), memory)
    assert (list(memory.iterdir()), elsewhere.exists()) == ([], True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_another_user_has_in_memory_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    os.chown(tmp_path / "theirs", 64001, 64001)
    clear_memory(os.geteuid(), tmp_path)
    assert (tmp_path / "theirs").exists()
