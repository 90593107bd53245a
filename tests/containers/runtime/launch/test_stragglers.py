"""F05: a rank that is much slower than the rest is named once and at the end, but nothing is stopped."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from slipway.containers.runtime.contract.settings import Settings
from slipway.containers.runtime.observe import progress as progress_module
from slipway.containers.runtime.observe.progress import Heartbeat, Progress, RankNode, Stragglers
from tests.containers.runtime.nodes import Cluster

HERE = RankNode(node=0, host="a")
THERE = RankNode(node=1, host="b")


def named(*paces: float, times: int = 1) -> list[str]:
    said: list[str] = []
    stragglers = Stragglers(said.append)
    for _ in range(times):
        stragglers.hear(HERE, dict(enumerate(paces)))
        stragglers.compare()
    return said


def test_a_slow_rank_of_another_node_is_named_with_its_host_and_by_how_much(cluster: Cluster) -> None:
    words = {"3": ["steps 0.3"], "*": ["steps 0.06"]}
    nodes = cluster.all(2, words, SLIPWAY_PROCESSES_PER_NODE=2)
    nodes[0].until("is slow")
    nodes[0].process.send_signal(signal.SIGTERM)
    assert [node.end() for node in nodes] == [85, 85]
    slow = rf"rank 3 on node 1 \({re.escape(socket.gethostname())}\) is slow"
    wanted = rf"{slow}: 0\.3\d\d s a step, \d\.\d × the median of 4 ranks"
    found = [line for line in nodes[0].lines if re.search(wanted, line)]
    assert len(found) == 2, "when it was found, and in the end"
    assert "warning: " in found[0]


def test_it_is_said_once_however_long_it_lasts() -> None:
    assert len(named(0.1, 0.1, 0.1, 0.5, times=5)) == 1


def test_one_of_two_ranks_can_be_slow() -> None:
    assert [line.split(" is slow")[0] for line in named(0.1, 0.5)] == ["warning: rank 1 on node 0 (a)"]


def test_small_differences_are_no_stragglers() -> None:
    assert named(0.10, 0.12, 0.14) == []
    assert named(0.001, 0.001, 0.005) == [], "milliseconds are noise"
    assert named(0.1) == [], "alone"


def test_the_report_says_the_latest_of_every_slow_rank_in_order() -> None:
    stragglers = Stragglers(lambda line: None)
    stragglers.hear(HERE, {0: 0.1, 1: 0.1, 2: 0.1, 3: 0.5})
    stragglers.compare()
    stragglers.hear(THERE, {4: 0.2, 3: 0.9})
    stragglers.compare()
    assert [re.sub(r" s a step.*", "", line) for line in stragglers.report()] == [
        "rank 3 on node 1 (b) is slow: 0.900",
        "rank 4 on node 1 (b) is slow: 0.200",
    ]


def test_a_rank_is_not_taken_for_stuck_because_its_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: object, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], monotonic_ns=lambda: int(now[0] * 1e9))
    monkeypatch.setattr(progress_module, "time", clock)
    progress = Progress(tmp_path, Settings(module="m", arguments=(), processes=1, hang_seconds=10.0))
    beat = Heartbeat(progress.file_of(0))
    beat.at("loading the long name of a dataset")
    progress.look([0])
    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(Path, "write_text", full)
    for step in range(3):
        now[0] += 11
        beat.at(str(step))
        progress.look([0])
        assert progress.stuck([0]) == {}
    now[0] += 11
    assert progress.stuck([0]) == {0: "after step 2"}


def paces_of(folder: Path, own_seconds: float | None, steps: int = 11) -> dict[int, float]:
    progress = Progress(folder, Settings(module="m", arguments=(), processes=1))
    beat = Heartbeat(progress.file_of(0))
    for step in range(steps):
        beat.at(str(step), own_seconds)
        progress.look([0])
        if step % 3 == 0:
            beat.at("saving somewhere")  # is no step
            progress.look([0])
    return progress.paces()


def test_own_work_is_compared_where_a_training_says_it(tmp_path: Path) -> None:
    """The whole steps are as long on all ranks: they wait for each other in each."""
    found = paces_of(tmp_path, own_seconds=0.25)
    assert abs(found[0] - 0.25) < 1e-6
    assert paces_of(tmp_path, own_seconds=None)[0] < 0.2, "else the time from step to step, which was short"


def test_a_rank_is_not_compared_before_it_has_done_some_steps(tmp_path: Path) -> None:
    assert paces_of(tmp_path, own_seconds=0.25, steps=10) == {}
