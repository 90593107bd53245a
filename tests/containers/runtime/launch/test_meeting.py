"""Ranks that trained alone are reported; ranks that met, or need not meet, are not."""

from __future__ import annotations

import _ctypes
import shutil
from pathlib import Path

import pytest

from slipway.containers.runtime.launch.node_roles import WORKED_ALONE
from tests.containers.runtime.nodes import Cluster, Node

LOOKED_AT = "pause 2"  # the launcher does not look at a rank that has ended


@pytest.fixture
def torch(tmp_path: Path) -> str:
    """Return the worker's command that loads a library with the name of PyTorch's."""
    return loading(tmp_path, "libtorch_cpu.so")


def loading(folder: Path, name: str) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return f"library {shutil.copy(_ctypes.__file__, folder / name)}"


def warnings(nodes: list[Node]) -> list[str]:
    assert [node.end() for node in nodes] == [0] * len(nodes), nodes[0].text
    return [line for node in nodes for line in node.lines if WORKED_ALONE in line]


def test_ranks_that_train_alone_are_told_of_in_the_last_lines(cluster: Cluster, torch: str) -> None:
    nodes = cluster.all(2, {"*": [torch, LOOKED_AT]})
    (line,) = warnings(nodes)
    assert line.startswith(f"[node 0] warning: the 2 {WORKED_ALONE}: ")
    assert "nor elsewhere did they meet; to train together, the program calls torch.distributed.init" in line
    assert line in nodes[0].lines[-2:]
    assert nodes[0].lines[-1] == "[node 0] all ranks succeeded; exit code 0"


def test_ranks_of_one_node_that_train_alone_are_told_of_too(cluster: Cluster, torch: str) -> None:
    node = cluster.start({"*": [torch, LOOKED_AT]}, SLIPWAY_PROCESSES_PER_NODE=3)
    (line,) = warnings([node])
    assert f"the 3 {WORKED_ALONE}" in line


@pytest.mark.parametrize("last", [LOOKED_AT, "say done"])
def test_ranks_that_met_are_not_told_of_however_soon_they_ended(
    cluster: Cluster, torch: str, last: str
) -> None:
    """The kernel remembers a closed connection for a minute."""
    assert warnings(cluster.all(2, {"*": [torch, "meet", last]})) == []


def test_ranks_that_met_at_a_place_of_their_own_are_not_told_of(cluster: Cluster, torch: str) -> None:
    node = cluster.start({"*": [torch, "talk 40", LOOKED_AT]}, SLIPWAY_PROCESSES_PER_NODE=2)
    assert warnings([node]) == []


def test_ranks_that_form_a_group_and_send_each_other_nothing_are_told_of(
    cluster: Cluster, torch: str
) -> None:
    """accelerate leaves ranks alone on processors unless ACCELERATE_USE_CPU is set."""
    node = cluster.start({"*": [torch, "greet 40", LOOKED_AT]}, SLIPWAY_PROCESSES_PER_NODE=2)
    (line,) = warnings([node])
    assert "formed a process group, and sent each other nothing" in line


def test_what_devices_send_each_other_is_not_asked_for(cluster: Cluster, tmp_path: Path, torch: str) -> None:
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    words = {"*": [torch, "greet 40", LOOKED_AT]}
    node = cluster.start(words, SLIPWAY_ROOT=tmp_path, SLIPWAY_PROCESSES_PER_NODE=2)
    assert warnings([node]) == []


def test_ranks_of_several_nodes_that_met_at_a_place_of_their_own_are_not_told_of(
    cluster: Cluster, torch: str
) -> None:
    assert warnings(cluster.all(2, {"*": [torch, "talk 40", LOOKED_AT]})) == []


@pytest.mark.parametrize("library", ["libmpi.so.40", "jaxlib/libjax_common.so", "ray/_raylet.so"])
def test_ranks_that_meet_in_ways_which_cannot_be_seen_are_not_told_of(
    cluster: Cluster, tmp_path: Path, torch: str, library: str
) -> None:
    assert warnings(cluster.all(2, {"*": [torch, loading(tmp_path, library), LOOKED_AT]})) == []


def test_commands_that_train_nothing_need_not_meet(cluster: Cluster) -> None:
    assert warnings(cluster.all(2, {"*": ["say prepared", LOOKED_AT]})) == []


def test_one_rank_has_nobody_to_meet(cluster: Cluster, torch: str) -> None:
    assert warnings([cluster.start({"*": [torch, LOOKED_AT]})]) == []


def test_ranks_that_fail_are_told_of_for_that_alone(cluster: Cluster, torch: str) -> None:
    nodes = cluster.all(2, {"*": [torch, LOOKED_AT, "exit 3"]})
    assert [node.end() for node in nodes] == [3, 3]
    assert WORKED_ALONE not in nodes[0].text
