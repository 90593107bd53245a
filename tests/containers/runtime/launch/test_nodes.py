"""Nodes of one job meet, watch each other, and end together with the right exit code."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slipway.containers.runtime.contract import settings
from slipway.containers.runtime.rendezvous import peers
from tests.containers.runtime.nodes import Cluster, ready
from tests.fault_clock import FaultClock

WAITING = {"*": ["wait"]}
SLOW_TO_START = """\
import subprocess, time
start = subprocess.Popen.__init__
subprocess.Popen.__init__ = lambda *given, **named: time.sleep(0.9) or start(*given, **named)
"""


@contextmanager
def taken(ports_taken: list[int]) -> Iterator[None]:
    sockets = [socket.socket() for _ in ports_taken]
    try:
        for each, port in zip(sockets, ports_taken, strict=True):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("", port))
            each.listen()
        yield
    finally:
        for each in sockets:
            each.close()


def test_a_dead_child_node_ends_the_job_resumable(cluster: Cluster, fault: FaultClock) -> None:
    """F07, F09: in Batch nothing else would notice; every other node bills on."""
    nodes = cluster.all(3, WAITING)
    ready(nodes)
    fault.strikes()
    nodes[2].process.kill()
    began = time.monotonic()
    nodes[0].until("lost node 2")
    fault.is_seen()
    assert [node.end() for node in nodes] == [85, 85, -signal.SIGKILL]
    fault.is_over()
    assert time.monotonic() - began < 10, "noticed by the closed connection, not by a timeout"
    assert re.search(r"lost node 2 \(.*\): its launcher is gone .*exit code 85", nodes[0].lines[-1])


def test_a_silent_child_node_ends_the_job_resumable(cluster: Cluster, fault: FaultClock) -> None:
    """F11: a host that lost its network closes no connection."""
    nodes = cluster.all(2, WAITING, SLIPWAY_HEARTBEAT_SECONDS=1)
    ready(nodes)
    fault.strikes()
    nodes[1].process.send_signal(signal.SIGSTOP)
    nodes[0].until("no heartbeat for 1 s")
    fault.is_seen()
    assert nodes[0].end() == 85
    fault.is_over()
    assert "no heartbeat for 1 s" in nodes[0].lines[-1]
    nodes[1].process.send_signal(signal.SIGCONT)  # the cut-off side ends itself, too
    assert nodes[1].end() == 85
    assert "lost the main node" in nodes[1].lines[-1]


def test_a_node_that_starts_its_ranks_slowly_is_not_taken_for_dead(cluster: Cluster, tmp_path: Path) -> None:
    """Each rank takes less than a heartbeat's patience, and all of them more."""
    tmp_path.joinpath("sitecustomize.py").write_text(SLOW_TO_START, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    told = {"SLIPWAY_HEARTBEAT_SECONDS": 2, "SLIPWAY_PROCESSES_PER_NODE": 3}
    main = cluster.start({"*": ["show"]}, node=0, nodes=2, **told)
    slow = cluster.start({"*": ["show"]}, node=1, nodes=2, PYTHONPATH=path, **told)
    assert [main.end(), slow.end()] == [0, 0], main.text


def test_a_lost_main_node_ends_every_other(cluster: Cluster, fault: FaultClock) -> None:
    """F08"""
    nodes = cluster.all(3, WAITING)
    ready(nodes)
    fault.strikes()
    nodes[0].process.kill()
    nodes[1].until("lost the main node")
    fault.is_seen()
    assert [node.end() for node in nodes[1:]] == [85, 85]
    fault.is_over()
    assert "lost the main node" in nodes[1].lines[-1]


@pytest.mark.parametrize("code", [1, 3, 85])
def test_a_failed_rank_of_a_child_node_is_the_exit_code_of_all(cluster: Cluster, code: int) -> None:
    words = {"0": ["wait"], "1": [f"exit {code}"] if code != 1 else ["explode boom"]}
    nodes = cluster.all(2, words)
    assert [node.end() for node in nodes] == [code, code]
    assert f"rank 1 on {socket.gethostname()} ended with exit code {code}" in nodes[0].lines[-1]
    if code == 1:
        assert "ZeroDivisionError: boom" in nodes[0].text, "the main node's log is the one that people read"


def test_the_exceptions_that_a_killed_rank_causes_do_not_hide_it(cluster: Cluster) -> None:
    nodes = cluster.all(2, {"0": ["exit 1"], "1": ["pause 0.2", "kill SIGSEGV"]})
    assert [node.end() for node in nodes] == [139, 139]
    assert "rank 1" in nodes[0].lines[-1]


def test_nodes_may_start_late_and_in_any_order(cluster: Cluster) -> None:
    """F10: somebody else answers the last node, which shows that it came first, and hangs up."""
    with socket.create_server(("", settings.port_of(cluster.environment(0, 3)))) as door:
        last = cluster.start({"*": ["show"]}, node=2, nodes=3)
        door.accept()[0].close()
    main = cluster.start({"*": ["show"]}, node=0, nodes=3)
    middle = cluster.start({"*": ["show"]}, node=1, nodes=3)
    assert [node.end() for node in (main, middle, last)] == [0, 0, 0]


def test_the_nodes_that_did_not_come_are_named(cluster: Cluster) -> None:
    """F10"""
    waits = {"SLIPWAY_RENDEZVOUS_SECONDS": 1.5}
    nodes = [cluster.start(WAITING, node=node, nodes=5, **waits) for node in (0, 2)]
    assert [node.end() for node in nodes] == [85, 85]
    for node in nodes:
        assert "3 of 5 nodes did not arrive in time: node index 1, 3, 4" in node.lines[-1]


def test_a_rank_that_hangs_prints_its_stack_and_ends_the_job_resumable(
    cluster: Cluster, fault: FaultClock
) -> None:
    """F04"""
    words = {"0": ["beat 7", "say hangs", "wait"], "1": ["beat 7", "kill SIGSTOP"]}
    nodes = cluster.all(2, words, SLIPWAY_HANG_SECONDS=1)
    nodes[0].until("hangs")
    fault.strikes()
    nodes[0].until("no progress")
    fault.is_seen()
    assert [node.end() for node in nodes] == [85, 85]
    fault.is_over()
    assert "no progress" in nodes[0].lines[-1]
    assert "after step 7" in nodes[0].lines[-1]
    assert re.search(r'\[0\]   File ".*worker.py", line \d+ in wait', nodes[0].text), "where rank 0 stood"


def test_a_stopped_rank_is_said_to_be_stopped(cluster: Cluster) -> None:
    node = cluster.start({"*": ["beat 7", "kill SIGSTOP"]}, SLIPWAY_HANG_SECONDS=0.5)
    assert node.end() == 85
    assert "process state T" in node.lines[-1]


def test_a_rank_that_has_not_begun_is_given_more_time(cluster: Cluster) -> None:
    node = cluster.start(
        {"*": ["beat start", "wait"]},
        SLIPWAY_HANG_SECONDS=0.1,
        SLIPWAY_START_SECONDS=1,
        SLIPWAY_GRACE_SECONDS=1,
    )
    assert node.end() == 85
    assert "before its first step" in node.lines[-1]


def test_strangers_on_the_port_disturb_nothing(cluster: Cluster) -> None:
    main = cluster.start({"*": ["show"]}, node=0, nodes=2)
    port = settings.port_of(cluster.environment(0, 2))
    stranger = reach(port)
    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100_000))
    liar = reach(port)
    liar.sendall(b'{"node": 1, "nonce": "0", "proof": "0", "host": "liar"}\n')
    main.until("refused a connection from 127.0.0.1")
    child = cluster.start({"*": ["show"]}, node=1, nodes=2)
    assert [main.end(), child.end()] == [0, 0]
    stranger.close()
    liar.close()


def reach(port: int) -> socket.socket:
    ends = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except ConnectionRefusedError:
            assert time.monotonic() < ends, "nobody listens"


def test_a_node_of_a_stale_attempt_is_refused(cluster: Cluster) -> None:
    port = {"SLIPWAY_PORT": settings.port_of(cluster.environment(0, 2)), "SLIPWAY_RENDEZVOUS_SECONDS": 2}
    main = cluster.start(WAITING, node=0, nodes=2, **port, AWS_BATCH_JOB_ATTEMPT=2)
    stale = cluster.start(WAITING, node=1, nodes=2, **port, AWS_BATCH_JOB_ATTEMPT=1)
    assert [main.end(), stale.end()] == [85, 85]
    assert "another attempt, listens there" in stale.lines[-1]
    assert "refused a connection" in main.text
    assert "node index 1" in main.lines[-1]


def test_nodes_with_other_code_or_configuration_are_refused(cluster: Cluster) -> None:
    """F50"""
    main = cluster.start(WAITING, node=0, nodes=2, SLIPWAY_CONFIG_DIGEST="a")
    child = cluster.start(WAITING, node=1, nodes=2, SLIPWAY_CONFIG_DIGEST="b")
    assert [main.end(), child.end()] == [2, 2]
    for node in (main, child):
        assert re.search(
            r"node 1 \(.*\) runs other code or another configuration than node 0", node.lines[-1]
        )


def test_two_nodes_with_one_index_are_refused(cluster: Cluster) -> None:
    nodes = [cluster.start(WAITING, node=node, nodes=3) for node in (0, 1, 1)]
    codes = [node.end() for node in nodes]
    assert codes[0] == 2
    assert "index is 1, which is taken" in nodes[0].lines[-1]
    assert set(codes[1:]) <= {2, 85}


def test_a_port_in_use_is_passed_over_on_both_sides(cluster: Cluster) -> None:
    """F52"""
    port = settings.port_of(cluster.environment(0, 2))
    with taken([port, port + 1]):
        nodes = cluster.all(2, {"*": ["show"]})
        assert [node.end() for node in nodes] == [0, 0]
    assert f"port {port} is in use here, so peers connect to {port + 2}" in nodes[0].text


def test_no_free_port_at_all_is_said(cluster: Cluster) -> None:
    port = settings.port_of(cluster.environment(0, 2))
    with taken(list(peers.candidates(port))):
        node = cluster.start(WAITING, node=0, nodes=2)
        assert node.end() == 85
    assert "are all in use on this node" in node.lines[-1]
