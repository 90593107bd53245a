"""When a job is asked to stop, all ranks of all nodes save in time, and it ends resumable."""

from __future__ import annotations

import signal
import time

import pytest

from tests.containers.runtime.nodes import Cluster, ready
from tests.fault_clock import FaultClock

SAVING = {"*": ["save"]}
SLOW_SAVE_SECONDS = 4.5  # longer than the time that ranks of a failed job get
GRACE_SECONDS = 3


@pytest.mark.parametrize("asked", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_stop_of_any_node_lets_all_ranks_save_and_ends_resumable(
    cluster: Cluster, asked: int, number: int, fault: FaultClock
) -> None:
    """F30, F31, F32: SIGUSR1 is how Slurm announces its limit."""
    nodes = cluster.all(2, SAVING, SLIPWAY_PROCESSES_PER_NODE=2)
    ready(nodes, ranks=2)
    fault.strikes()
    nodes[asked].process.send_signal(number)
    nodes[asked].until("ranks have 25 s")
    fault.is_seen()
    assert [node.end() for node in nodes] == [85, 85]
    fault.is_over()
    assert cluster.saved() == ["0", "1", "2", "3"]
    for node in nodes:
        assert "ranks have 25 s to write a checkpoint" in node.text, "all were told, at once"


def test_who_does_not_end_in_time_is_killed(cluster: Cluster) -> None:
    nodes = cluster.all(2, {"0": ["finish"], "1": ["ignore"]}, SLIPWAY_GRACE_SECONDS=0.5)
    ready(nodes)
    nodes[0].process.send_signal(signal.SIGTERM)
    assert [node.end() for node in nodes] == [143, 143]
    assert "rank 1 did not end in time and was killed" in nodes[0].lines[-1]


def test_a_slow_save_is_given_the_time_that_is_left(cluster: Cluster) -> None:
    node = cluster.start({"*": ["save 1"]}, SLIPWAY_GRACE_SECONDS=20)
    ready([node])
    node.process.send_signal(signal.SIGTERM)
    assert node.end() == 85
    assert cluster.saved() == ["0"]


def test_who_was_asked_to_stop_has_all_its_time_though_the_main_node_is_lost_meanwhile(
    cluster: Cluster,
) -> None:
    """A save takes longer than the moment that ranks of a failed job are given."""
    nodes = cluster.all(2, {"*": [f"save {SLOW_SAVE_SECONDS}"]})
    ready(nodes)
    nodes[1].process.send_signal(signal.SIGUSR1)
    nodes[1].until("SIGUSR1 received: ranks have 25 s")
    nodes[0].process.kill()
    assert nodes[1].end() == 85
    assert "lost the main node" in nodes[1].lines[-1]
    assert cluster.saved() == ["1"]


def test_who_was_asked_to_stop_has_all_its_time_though_the_job_fails_meanwhile(cluster: Cluster) -> None:
    """A stop comes in the moment in which the main node still collects causes of a failure."""
    nodes = cluster.all(3, {"1": ["save 7"], "*": ["save"]})
    ready(nodes)
    nodes[2].process.kill()
    nodes[0].until("lost node 2")
    nodes[1].process.send_signal(signal.SIGTERM)
    assert nodes[0].end() == 85
    assert cluster.saved() == ["0", "1"], "in Batch the end of the main node is the end of all"
    assert nodes[1].end() == 85


def test_who_presses_the_keys_again_does_not_wait_for_a_save_of_a_job_that_failed(cluster: Cluster) -> None:
    nodes = cluster.all(2, {"*": ["ignore"]}, SLIPWAY_GRACE_SECONDS=300)
    ready(nodes)
    nodes[1].process.send_signal(signal.SIGTERM)
    nodes[1].until("ranks have 300 s")
    nodes[0].process.kill()
    nodes[0].process.wait()
    nodes[1].process.send_signal(signal.SIGINT)
    assert nodes[1].end() == 85


def test_launchers_that_were_both_paused_do_not_take_each_other_for_dead(cluster: Cluster) -> None:
    """A machine that is paused, or starved by its neighbours, speaks as little as it hears."""
    nodes = cluster.all(2, SAVING, SLIPWAY_HEARTBEAT_SECONDS=4)  # a busy machine wakes one of them later
    ready(nodes)
    for node in nodes:
        node.process.send_signal(signal.SIGSTOP)
    time.sleep(5)  # the fault: longer than a heartbeat's patience
    for node in nodes:
        node.process.send_signal(signal.SIGCONT)
    nodes[1].process.send_signal(signal.SIGUSR1)
    assert [node.end() for node in nodes] == [85, 85]
    assert "lost" not in nodes[0].text + nodes[1].text
    assert cluster.saved() == ["0", "1"]


def test_a_second_interruption_from_the_keyboard_does_not_wait(cluster: Cluster) -> None:
    node = cluster.start({"*": ["ignore"]}, SLIPWAY_GRACE_SECONDS=300)
    ready([node])
    node.process.send_signal(signal.SIGINT)
    node.until("ranks have 300 s")
    node.process.send_signal(signal.SIGINT)
    assert node.end() == 143


def test_ranks_that_end_well_when_asked_to_stop_have_ended_well(cluster: Cluster) -> None:
    node = cluster.start({"*": ["finish"]})
    ready([node])
    node.process.send_signal(signal.SIGTERM)
    assert node.end() == 0


def test_ranks_save_ahead_of_the_deadline(cluster: Cluster) -> None:
    """A busy machine may need longer to start a rank than there is until the notice: it gets more time."""
    for seconds in (2, 8, 32):
        for earlier in cluster.checkpoints.iterdir():
            earlier.unlink()
        timeout = GRACE_SECONDS + seconds
        node = cluster.start(SAVING, SLIPWAY_TIMEOUT_SECONDS=timeout, SLIPWAY_GRACE_SECONDS=GRACE_SECONDS)
        code = node.end()
        started, _, ended = node.text.partition("the deadline is near")
        if "ready" in started:
            break
    assert ended, node.text
    assert code == 85
    assert cluster.saved() == ["0"]
