"""The eleven faults of the public DL1 workshop, as far as its container had them: none may be ours.

Faults 7 and 8 (no placement group, a machine image of one region) are the cluster's, and tested with it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.containers.runtime.nodes import ROOT, Cluster

RUNTIME = ROOT / "containers" / "runtime"


def machine(folder: Path, habana: int = 8, efa: int = 4, accel: bool = True) -> Path:
    """A root with a DL1's device files, or some of them."""
    root = folder / f"machine-{habana}-{efa}"
    (root / "dev/accel").mkdir(parents=True)
    (root / "dev/infiniband").mkdir()
    (root / "proc").symlink_to("/proc")
    for index in range(habana):
        (root / "dev" / (f"accel/accel{index}" if accel else f"hl{index}")).touch()
        (root / "dev" / (f"accel/accel_controlD{index}" if accel else f"hl_controlD{index}")).touch()
    for index in range(efa):
        (root / f"dev/infiniband/uverbs{index}").touch()
    (root / "dev/infiniband/rdma_cm").touch()
    return root


DL1 = {"SLIPWAY_ACCELERATOR": "habana", "SLIPWAY_ACCELERATORS": 8, "SLIPWAY_EFA_INTERFACES": 4}


@pytest.mark.parametrize("words", [["say done"], ["exit 4"]])
def test_fault_1_the_main_node_ends_when_the_training_has_ended(cluster: Cluster, words: list[str]) -> None:
    """It slept in an endless loop, and was billed until somebody pressed Terminate."""
    nodes = cluster.all(2, {"*": words})
    codes = [node.end() for node in nodes]
    assert codes in ([0, 0], [4, 4])


@pytest.mark.parametrize("code", [0, 1, 7])
def test_faults_2_and_3_the_exit_code_is_the_trainings_whatever_it_logs(cluster: Cluster, code: int) -> None:
    """It was always 1, as backticks ran its own output; and log prefixes were written in its place."""
    node = cluster.start({"*": ["say 0", "say exit code 99", f"exit {code}"]})
    assert node.end() == code


@pytest.mark.parametrize("sick", [0, 1])
def test_fault_4_a_failed_health_check_ends_the_whole_job_at_once_and_not_with_0(
    cluster: Cluster, tmp_path: Path, sick: int
) -> None:
    """It ended with 0 on the bad node, and the main node waited for it without a limit."""
    roots = [machine(tmp_path, habana=7 if node == sick else 8, efa=4 + node) for node in range(2)]
    nodes = [
        cluster.start({"*": ["wait"]}, node=node, nodes=2, SLIPWAY_ROOT=roots[node], **dl1(rendezvous=3))
        for node in range(2)
    ]
    assert [node.end() for node in nodes] == [85, 85]
    assert f"node {sick} (" in nodes[sick].lines[-1]
    assert "7 of 8 habana devices" in nodes[sick].lines[-1]
    if sick == 1:
        assert "7 of 8 habana devices" in nodes[0].lines[-1], "the main node's log is the one people read"
    assert "ready" not in nodes[0].text + nodes[1].text, "nothing was started on any node"


def dl1(rendezvous: float = 30) -> dict[str, Any]:
    return {**DL1, "SLIPWAY_RENDEZVOUS_SECONDS": str(rendezvous)}


def test_fault_5_a_child_that_finds_no_main_node_gives_up_and_says_where_it_looked(cluster: Cluster) -> None:
    """It tried ssh forever."""
    child = cluster.start({"*": ["wait"]}, node=1, nodes=2, SLIPWAY_RENDEZVOUS_SECONDS=1)
    assert child.end() == 85
    assert re.search(r"did not find the main node at 127\.0\.0\.1, port \d+ and up", child.lines[-1])


@pytest.mark.parametrize("efa", [0, 1, 3])
def test_fault_6_one_network_card_of_four_is_noticed(cluster: Cluster, tmp_path: Path, efa: int) -> None:
    node = cluster.start({"*": ["wait"]}, SLIPWAY_ROOT=machine(tmp_path, efa=efa), **dl1())
    assert node.end() == 85
    assert f"{efa} of 4 EFA devices" in node.lines[-1]


def test_fault_9_one_command_starts_the_training_on_every_device_of_every_node(cluster: Cluster) -> None:
    """It was started by hand over ssh, after NUM_NODES had been edited in a script."""
    nodes = cluster.all(3, {"*": ["show"]}, SLIPWAY_PROCESSES_PER_NODE=2)
    assert [node.end() for node in nodes] == [0, 0, 0]
    assert sum(node.text.count('"world": 6') for node in nodes) == 6


def test_fault_10_nodes_need_no_ssh_and_no_key_pair() -> None:
    """Its private key lay in a secret that every node could read, and host keys were not checked."""
    said = [
        path.name
        for path in RUNTIME.rglob("*.py")
        if re.search(r"\bssh|paramiko|known_hosts", path.read_text())
    ]
    assert said == []


@pytest.mark.parametrize("accel", [True, False])
def test_fault_11_devices_are_counted_without_a_vendors_tool(
    cluster: Cluster, tmp_path: Path, accel: bool
) -> None:
    """It added up lines that a proprietary test printed. Drivers name devices accel0 or, older, hl0."""
    node = cluster.start({"*": ["say trained"]}, SLIPWAY_ROOT=machine(tmp_path, accel=accel), **dl1())
    assert node.end() == 0
    assert "[0] trained" in node.lines


def test_every_finding_of_a_node_is_said_at_once(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.start({}, SLIPWAY_ROOT=machine(tmp_path, habana=0, efa=0), **dl1())
    assert node.end() == 85
    assert "0 of 8 habana devices" in node.lines[-1]
    assert "0 of 4 EFA devices" in node.lines[-1]


def test_a_node_says_what_it_has_and_what_of_it_is_less_than_promised(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Counted before training, on the node itself: what the catalogue says is a promise of somebody else."""
    root = machine(tmp_path)
    (root / "proc").unlink()
    (root / "proc/sys/vm").mkdir(parents=True)
    (root / "proc/sys/vm/nr_hugepages").write_text("512\n")
    (root / "proc/net").mkdir()
    (root / "proc/net/route").write_text(ROUTES)
    for domain in range(2):
        (root / f"sys/devices/system/node/node{domain}").mkdir(parents=True)
    node = cluster.start(
        {"*": ["variable HCCL_SOCKET_IFNAME"]}, SLIPWAY_ROOT=root, SLIPWAY_HUGE_PAGES=15000, **dl1()
    )
    assert node.end() == 0
    assert "this node has 8 habana devices, 4 EFA devices, 2 NUMA domains, 512 huge pages" in node.text
    assert "warning: 512 of 15000 huge pages are reserved on this node" in node.text
    assert "HCCL_SOCKET_IFNAME=ens32" in node.text, "the first of many may be a port of a Gaudi"


ROUTES = """\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
ens65 0000280A 00000000 0001 0 0 0 00C0FFFF 0 0 0
ens33 00000000 0100280A 0003 0 0 512 00000000 0 0 0
ens32 00000000 0100280A 0003 0 0 100 00000000 0 0 0
"""


def test_in_a_yard_nobody_looks_for_devices_and_the_log_says_so(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.start(
        {"*": ["say trained"]}, SLIPWAY_ROOT=machine(tmp_path, habana=0, efa=0), SLIPWAY_STAND_IN=1, **dl1()
    )
    assert node.end() == 0
    assert "this is a yard: processors stand in for 8 habana devices" in node.text
