"""BI-164, F51: the lock that a killed build of an operator leaves makes no later attempt wait forever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slipway.containers.runtime.launch.assignment import rank_environment
from tests.containers.runtime.contract.test_contract import ONE
from tests.containers.runtime.nodes import Cluster


def test_each_attempt_builds_operators_in_a_folder_of_its_own(tmp_path: Path) -> None:
    built = [
        rank_environment({}, replace(ONE, attempt=attempt), tmp_path / f"{attempt}")["TORCH_EXTENSIONS_DIR"]
        for attempt in (1, 2)
    ]
    assert built == [f"{tmp_path}/1/torch_extensions", f"{tmp_path}/2/torch_extensions"]


def test_a_lock_that_was_left_in_a_folder_of_somebodys_choice_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    lock = tmp_path / "fused_adam" / "lock"
    lock.parent.mkdir()
    lock.touch()
    node = cluster.start({"*": ["show"]}, TORCH_EXTENSIONS_DIR=tmp_path)
    assert node.end() == 0
    (warning,) = [line for line in node.lines if "warning: " in line]
    assert f"{lock} is left from a build that was killed" in warning
