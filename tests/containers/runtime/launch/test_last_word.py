"""SageMaker shows a person what /opt/ml/output/failure says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.containers.runtime.nodes import Cluster


def sagemaker(root: Path) -> dict[str, Any]:
    (root / "proc").symlink_to("/proc")
    hosts = {"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1", "TRAINING_JOB_NAME": "gpt-1"}
    # As the platform sets it; the fixture's variables are Batch's.
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
