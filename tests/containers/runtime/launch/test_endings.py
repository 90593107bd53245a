"""A rank ends with its own exit code whatever threads it has, and a platform is told why a job failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.containers.runtime.nodes import ROOT, Cluster


@pytest.mark.parametrize(
    ("word", "code"), [("say done", 0), ("exit 85", 85), ("exit 3", 3), ("refuse", 2), ("explode boom", 1)]
)
def test_a_rank_with_a_live_thread_of_a_library_ends_with_its_own_code(
    cluster: Cluster, live_thread: Path, word: str, code: int
) -> None:
    node = cluster.start({"0": [f"library {live_thread}", word]})
    assert node.end() == code
    assert "terminate called" not in node.text
    assert "SIGABRT" not in node.text


def test_nothing_is_lost_of_what_a_rank_leaves_to_the_end_of_the_interpreter(
    cluster: Cluster, tmp_path: Path
) -> None:
    node = cluster.start({"0": [f"leave_open {tmp_path}"]})
    assert node.end() == 0
    assert {"[0] of C", "[0] of Python"} <= set(node.lines)
    assert (tmp_path / "atexit").read_text() == "done"
    assert (tmp_path / "thread").read_text() == "done"


@pytest.mark.parametrize(
    ("end", "code", "said"), [("None", 0, ""), ("'no data'", 1, "no data\n"), ("-1", 255, "")]
)
def test_sys_exit_means_what_python_says(tmp_path: Path, end: str, code: int, said: str) -> None:
    (tmp_path / "training.py").write_text(f"import sys; sys.exit({end})")
    ran = subprocess.run(
        [sys.executable, "-m", "slipway.containers.runtime.launch.rank", "training"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (code, said)


# SageMaker shows its user the text of /opt/ml/output/failure.


def sagemaker(root: Path) -> dict[str, Any]:
    (root / "proc").symlink_to("/proc")
    hosts = {"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1", "TRAINING_JOB_NAME": "gpt-1"}
    # Set as SageMaker does; the fixture has Batch's variables.
    return {**hosts, "SLIPWAY_ROOT": root}


def start(cluster: Cluster, words: list[str], root: Path, **variables: Any) -> int:
    return cluster.start({"*": words}, **{**sagemaker(root), **variables}).end()


def test_a_failure_is_written_with_its_reason_first(cluster: Cluster, tmp_path: Path) -> None:
    assert start(cluster, ["explode " + "é" * 2000], tmp_path) == 1
    written = (tmp_path / "opt/ml/output/failure").read_text()
    assert written.startswith("rank 0 on ")
    assert "ended with exit code 1" in written
    assert "Traceback" in written
    assert len(written) == 1024


def test_a_refusal_before_anything_started_is_written(cluster: Cluster, tmp_path: Path) -> None:
    assert start(cluster, [], tmp_path, SLIPWAY_PROCESSES_PER_NODE="eight") == 2
    assert "SLIPWAY_PROCESSES_PER_NODE is 'eight'" in (tmp_path / "opt/ml/output/failure").read_text()


def test_a_training_that_ended_well_leaves_no_failure(cluster: Cluster, tmp_path: Path) -> None:
    assert start(cluster, ["show"], tmp_path) == 0
    assert not (tmp_path / "opt").exists()


def test_other_platforms_get_no_such_file(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "proc").symlink_to("/proc")
    assert cluster.start({"*": ["exit 3"]}, SLIPWAY_ROOT=tmp_path).end() == 3
    assert not (tmp_path / "opt").exists()


def test_a_place_that_cannot_be_written_hides_no_exit_code(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "opt").write_text("a file where a folder should be")
    assert start(cluster, ["exit 3"], tmp_path) == 3
