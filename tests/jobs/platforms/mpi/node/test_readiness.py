"""A cluster is ready when as many nodes as were declared answered together; who did not is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from slipway.jobs.platforms.mpi.node import run
from slipway.jobs.platforms.mpi.node.facts import find_program
from slipway.jobs.platforms.mpi.node.run import check, summarise
from slipway.jobs.words.mpi import Member, host_name
from tests.jobs.platforms.mpi.node.conftest import SETUP, Node, Start

pytest.importorskip("torch", reason="torch is not installed")

MPI = next((mpi for mpi in ("open-mpi", "mpich") if find_program(mpi)), "")
MEMBERS = [
    Member(name=host_name(f"10.0.0.{number}"), address=f"10.0.0.{number}", instance_id=f"i-{number}")
    for number in (1, 2)
]


def test_ready_needs_all_that_were_declared_and_an_answer_of_each() -> None:
    assert summarise(MEMBERS, {}, 2, 7).ready
    assert not summarise(MEMBERS, {}, 3, 7).ready
    silent = summarise(MEMBERS, {"ip-10-0-0-2": "no answer within 20 s"}, 2, 7)
    assert not silent.ready
    assert [node.why for node in silent.nodes if not node.answered] == ["no answer within 20 s"]


def test_a_failed_all_reduce_blames_the_lost_host_alone_where_there_is_one() -> None:
    assert run._problems(MEMBERS, 0, ()) == {}
    assert list(run._problems(MEMBERS, 85, ("ip-10-0-0-2",))) == ["ip-10-0-0-2"]
    assert list(run._problems(MEMBERS, 1, ())) == [member.name for member in MEMBERS]


@pytest.mark.slow
@pytest.mark.alone  # no other test may have a process of a job, or this node would count as busy
@pytest.mark.skipif(not MPI, reason="neither Open MPI nor MPICH is installed")
def test_nodes_that_answer_are_asked_together_and_those_that_do_not_are_left_out(
    start: Start, as_node: Callable[[Node], None]
) -> None:
    """A real all-reduce of torch, through a real mpirun."""
    node = start("127.0.0.1")
    as_node(node)
    dead = Member(name="ip-127-0-0-2", address="127.0.0.2", instance_id="i-dead")
    node.knows([node.member, dead])
    found = check(node.where, replace(SETUP, mpi=MPI), [node.member, dead])
    assert [(each.name, each.answered) for each in found.nodes] == [
        (node.member.name, True),
        (dead.name, False),
    ]
    assert not found.ready
    assert "refused" in found.nodes[1].why
