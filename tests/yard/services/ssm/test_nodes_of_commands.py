"""`slipway yard kill-node JOB NODE` reaches a node of an MPI job, as the job itself numbers its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slipway.yard.machines.hosts import host_store, reconciler
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.services.ssm import run_command
from slipway.yard.services.ssm.nodes_of_commands import kill_node_of_command
from slipway.yard.services.ssm.run_command import Command, Invocation

JOB = "train-0123456789ab"


@dataclass(slots=True)
class Killed:
    names: list[str] = field(default_factory=list)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Killed]:
    """Three hosts of a cluster and one of another; a job runs on the oldest of the three."""
    seen = Killed()
    monkeypatch.setattr(reconciler, "kill", lambda host: seen.names.append(host.instance.id))
    monkeypatch.setattr(host_store, "hosts", {})
    for place, (name, cluster) in enumerate((("i-3", "c"), ("i-1", "c"), ("i-2", "c"), ("i-9", "other"))):
        launched_at = f"2026-01-01T00:00:01.{9 - int(name[-1])}" if name != "i-3" else "2026-01-01T00:00:02.0"
        instance = SimpleNamespace(id=name, cluster=cluster, launched_at=launched_at)
        host = Host(instance=cast(Any, instance), number=place, root="", state="running")
        host_store.hosts[name] = host
    command = Command(region="us-east-1", sent={"Comment": JOB}, steps=(), version="1", log_group="")
    command.invocations["i-1"] = Invocation(command=command, instance="i-1", outcomes=[], status="InProgress")
    run_command.commands[command.id] = command
    yield seen
    run_command.reset()


@pytest.mark.parametrize(("node", "host"), [(0, "i-1"), (1, "i-2"), (2, "i-3")])
def test_nodes_are_numbered_by_the_second_of_their_start_and_then_by_their_ids(
    killed: Killed, node: int, host: str
) -> None:
    """A job numbers them so: EC2 tells it no fraction of a second."""
    assert kill_node_of_command("train", node) == JOB
    assert killed.names == [host]


def test_a_node_that_the_job_does_not_have_is_refused(killed: Killed) -> None:
    with pytest.raises(ValueError, match=f"job {JOB} has no node 3; it has 0 to 2"):
        kill_node_of_command(JOB, 3)
    assert killed.names == []


def test_a_job_of_another_service_is_left_to_it(killed: Killed) -> None:
    assert kill_node_of_command("elsewhere", 0) is None
    (command,) = run_command.commands.values()
    command.invocations["i-1"].status = "Success"
    assert kill_node_of_command(JOB, 0) is None
    assert killed.names == []
