"""A launcher on each node starts its ranks, tells them their places, and ends with their exit code."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.containers.runtime.nodes import ROOT, Cluster, Node
from tests.fault_clock import FaultClock


def contracts(nodes: list[Node]) -> list[dict[str, object]]:
    lines = [line for node in nodes for line in node.lines if re.match(r"\[\d+\] \{", line)]
    return sorted(
        (json.loads(line.split(" ", 1)[1]) for line in lines), key=lambda seen: int(str(seen["rank"]))
    )


def test_every_rank_of_every_node_is_told_its_place(cluster: Cluster) -> None:
    nodes = cluster.all(2, {"*": ["show"]}, SLIPWAY_PROCESSES_PER_NODE=2)
    assert [node.end() for node in nodes] == [0, 0]
    seen = contracts(nodes)
    assert [(one["rank"], one["local_rank"], one["world"], one["node"]) for one in seen] == [
        (0, 0, 4, 0),
        (1, 1, 4, 0),
        (2, 0, 4, 1),
        (3, 1, 4, 1),
    ]
    assert len({str(one["port"]) for one in seen}) == 1


def test_where_the_platform_starts_one_process_a_device_each_launcher_has_one_rank(cluster: Cluster) -> None:
    slurm = {"SLURM_STEP_ID": 0, "SLURM_NTASKS": 2, "SLURM_NNODES": 1, "SLURM_NODEID": 0, "SLURM_JOB_ID": 7}
    nodes = [
        cluster.start(
            {"*": ["show"]}, SLURM_PROCID=rank, SLURM_LOCALID=rank, SLIPWAY_RUN=cluster.run, **slurm
        )
        for rank in range(2)
    ]
    assert [node.end() for node in nodes] == [0, 0]
    assert [(one["rank"], one["local_rank"], one["world"]) for one in contracts(nodes)] == [
        (0, 0, 2),
        (1, 1, 2),
    ]


ARGUMENTS = ["--lr", "1e-3", "--", "-x", "$(id)", "a b", "é\u202e", "'\"\\", "", "\n"]


def test_arguments_reach_the_training_as_they_were_given(cluster: Cluster) -> None:
    node = cluster.start({"*": ["show"]}, *ARGUMENTS)
    assert node.end() == 0
    assert contracts([node])[0]["argv"] == ARGUMENTS


@pytest.mark.parametrize("code", [0, 1, 2, 3, 85, 255])
def test_the_exit_code_is_the_trainings_own(cluster: Cluster, code: int) -> None:
    node = cluster.start({"0": ["wait"] if code else [], "1": [f"exit {code}"]}, SLIPWAY_PROCESSES_PER_NODE=2)
    assert node.end() == code
    assert f"exit code {code}" in node.lines[-1]


def test_a_traceback_is_repeated_at_the_end_with_its_rank_and_host(cluster: Cluster) -> None:
    """F02"""
    words = {"0": ["wait"], "1": ["flood 5000", "explode boom"]}
    node = cluster.start(words, SLIPWAY_PROCESSES_PER_NODE=2)
    assert node.end() == 1
    last = node.text[node.text.index("the last output of rank 1") :]
    assert "Traceback (most recent call last):" in last
    assert "ZeroDivisionError: boom" in last
    assert re.search(r"error: rank 1 on \S+ ended with exit code 1", node.lines[-1])


def test_a_users_mistake_is_one_line_without_a_traceback(cluster: Cluster) -> None:
    node = cluster.start({"*": ["refuse"]})
    assert node.end() == 2
    assert "[0] error: micro_batch is 0, and must be at least 1" in node.lines
    assert "Traceback" not in node.text


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM"])
def test_a_rank_that_a_signal_ends_is_named_with_the_signal(cluster: Cluster, name: str) -> None:
    """F01, F03"""
    node = cluster.start({"0": ["wait"], "1": [f"kill {name}"]}, SLIPWAY_PROCESSES_PER_NODE=2)
    assert node.end() == 128 + signal.Signals[name]
    assert f"was killed by {name}" in node.lines[-1]


def test_a_killed_rank_ends_resumable_where_the_backend_asks_for_it(
    cluster: Cluster, fault: FaultClock
) -> None:
    node = cluster.start({"*": ["say falls", "pause 0.1", "kill SIGKILL"]}, SLIPWAY_RESUME_AFTER_SIGNALS=1)
    node.until("falls")
    fault.strikes()
    node.until("was killed by SIGKILL")
    fault.is_seen()
    assert node.end() == 85
    fault.is_over()
    assert "was killed by SIGKILL (exit code 137); the next attempt resumes" in node.lines[-1]


@pytest.mark.parametrize("resume", [0, 1])
def test_a_rank_that_ran_out_of_memory_is_said_so_and_not_tried_again(
    cluster: Cluster, tmp_path: Path, resume: int
) -> None:
    """F06: the same configuration would run out again."""
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.events").write_text("low 0\noom_kill 0\n")
    (tmp_path / "proc").symlink_to("/proc")
    node = cluster.start({"*": ["memory"]}, SLIPWAY_ROOT=tmp_path, SLIPWAY_RESUME_AFTER_SIGNALS=resume)
    assert node.end() == 137
    assert "out of memory" in node.lines[-1]


def test_a_module_that_is_not_there_is_refused_before_anything_starts(cluster: Cluster) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "slipway.containers.runtime.launch",
            "--module",
            "containers.no_such",
        ],
        cwd=ROOT,
        env=cluster.environment(0, 1),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "containers.no_such is not installed here" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLIPWAY_PROCESSES_PER_NODE", "0"),
        ("SLIPWAY_PROCESSES_PER_NODE", "eight"),
        ("SLIPWAY_ACCELERATOR", "abacus"),
        ("SLIPWAY_ACCELERATORS", "-1"),
        ("SLIPWAY_GRACE_SECONDS", "soon"),
        ("SLIPWAY_HANG_SECONDS", "1e9"),
        ("SLIPWAY_RESUME_AFTER_SIGNALS", "yes"),
        ("SLIPWAY_MARKET", "black"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "file:///etc/passwd"),
        ("SLIPWAY_NODES", "4"),
        ("SLIPWAY_PORT", "70000"),
        ("SLIPWAY_CHECKPOINTS", "a\nb"),
        ("AWS_BATCH_JOB_ATTEMPT", "0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_in_one_line(
    cluster: Cluster, name: str, value: str
) -> None:
    variables: dict[str, Any] = {name: value}
    node = cluster.start({}, **variables)
    assert node.end() == 2
    assert "Traceback" not in node.text
    assert sum(line.startswith("error: ") or "] error: " in line for line in node.lines) == 1


def test_what_ranks_leave_behind_is_gone_when_the_job_has_ended(cluster: Cluster) -> None:
    """Also what made a session of its own; the fixture looks for it."""
    assert cluster.start({"*": ["children"]}, SLIPWAY_PROCESSES_PER_NODE=2).end() == 0


def test_zombies_are_reaped_while_the_job_runs(cluster: Cluster) -> None:
    node = cluster.start({"*": ["children", "say begun", "finish"]})
    node.until("ready")
    states = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == node.process.pid:
            states[path.parent.name] = fields[0]
    assert len(states) >= 3, "the rank, its orphan and the guard"
    assert "Z" not in states.values()
    node.process.send_signal(signal.SIGTERM)
    assert node.end() == 0


def test_nothing_survives_a_launcher_that_is_killed(cluster: Cluster) -> None:
    """Nor what its ranks started, in sessions of their own and with signals ignored."""
    node = cluster.start({"*": ["children", "ignore"]}, SLIPWAY_PROCESSES_PER_NODE=2)
    node.until("ready", times=2)
    node.process.kill()
    node.process.wait()
    assert cluster.left_running() == []
