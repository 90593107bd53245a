"""F53: a shared disk that does not answer while a checkpoint is saved."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.runtime.contract.settings import Settings
from slipway.containers.runtime.observe.progress import SAVING, STARTING, WAITING, Heartbeat, Progress
from tests.containers.runtime.nodes import Cluster
from tests.fault_clock import FaultClock


@pytest.fixture
def stalled(tmp_path: Path) -> dict[str, Any]:
    """Stall the second step alone."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build the stalled disk with")
    library = tmp_path / "stalled_disk.so"
    source = Path(__file__).with_name("stalled_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": library, "STALLED": "step-0000000002"}


def test_a_save_that_stalls_is_named_and_ends_the_job_resumable_from_the_last_good_one(
    cluster: Cluster, stalled: dict[str, Any], fault: FaultClock
) -> None:
    words = {"0": ["checkpoint 1", "say stalls", "checkpoint 2"], "1": ["wait"]}
    nodes = cluster.all(2, words, SLIPWAY_SAVE_SECONDS=1, SLIPWAY_HEARTBEAT_SECONDS=2, **stalled)
    nodes[0].until("stalls")
    fault.strikes()
    nodes[0].until("its file system does not answer")
    fault.is_seen()
    assert [node.end() for node in nodes] == [85, 85], "not for want of heartbeats: those go on"
    last = nodes[0].lines[-1]
    assert f"by rank 0 (while saving {cluster.checkpoints}/step-0000000002, rank-00000.safetensors" in last
    assert "its file system does not answer" in last
    assert "lost" not in nodes[0].text + nodes[1].text
    assert " in write_synced" in nodes[0].text, "where rank 0 stood"
    again = cluster.start({"0": ["checkpoint 2"]}, AWS_BATCH_JOB_ATTEMPT=2)
    again.until("[0] begins after step 1")
    fault.is_over()
    assert again.end() == 0


def settings(**seconds: Any) -> Settings:
    return Settings(module="m", arguments=(), processes=1, **seconds)


def stuck(where: str, folder: Path, **seconds: Any) -> dict[int, str]:
    progress = Progress(folder, settings(**seconds))
    Heartbeat(progress.file_of(0)).at(where)
    progress.look([0])
    return progress.stuck([0])


@pytest.mark.parametrize(
    ("where", "limit", "said"),
    [
        (STARTING, "start_seconds", "before its first step"),
        (f"{SAVING}/c/step-2", "save_seconds", "while saving /c/step-2"),
        ("7", "hang_seconds", "after step 7"),
        ("evaluating", "hang_seconds", "while evaluating"),
    ],
)
def test_each_kind_of_work_has_a_patience_of_its_own(
    tmp_path: Path, where: str, limit: str, said: str
) -> None:
    ample = {"start_seconds": 1000.0, "save_seconds": 1000.0, "hang_seconds": 1000.0}
    assert stuck(where, tmp_path, **ample) == {}
    assert stuck(where, tmp_path, **{**ample, limit: 1e-9}) == {0: said}


def test_who_waits_for_a_stalled_rank_is_not_taken_for_it(tmp_path: Path) -> None:
    where = f"{WAITING}step 2"
    assert stuck(where, tmp_path, hang_seconds=1e-9, save_seconds=1000.0) == {}


def test_a_very_long_path_still_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is read in part must not look the same at every beat."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    progress = Progress(tmp_path, settings(save_seconds=10))
    for clock[0] in (100.0, 108.0, 116.0):
        Heartbeat(progress.file_of(0)).at(f"{SAVING}/{'x' * 5000}")
        progress.look([0])
        assert progress.stuck([0]) == {}
