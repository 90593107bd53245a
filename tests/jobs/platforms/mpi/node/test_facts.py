"""A node reports itself and its processes, and the main node names nodes that differ."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node import run
from slipway.jobs.platforms.mpi.node.facts import (
    NodeFacts,
    clear_memory,
    decode_facts,
    differences,
    encode_facts,
    end_processes,
    find_program,
    jobs_here,
    own_topology,
    parse_list,
)
from slipway.jobs.platforms.mpi.node.run import check, summarise
from slipway.jobs.platforms.mpi.node.setting import ROOT_VARIABLE
from slipway.jobs.words.mpi import Member, Topology, host_name
from tests.jobs.code.projects import write
from tests.jobs.platforms.mpi.node.conftest import SETUP, Node, Start

FACTS = NodeFacts(
    python="3.11.7",
    torch="2.13.0",
    mpi="mpirun (Open MPI) 4.1.4",
    slipway="0.1.0",
    training="the node's own",
    numa_domains=1,
    cores=32,
    ccl=False,
    running="",
)


def test_facts_are_read_as_they_were_printed_whatever_a_shell_says_before() -> None:
    assert decode_facts(f"Welcome!\n{encode_facts(FACTS)}\n") == FACTS
    assert [decode_facts(text) for text in ("", "Welcome!", "{}", "[]")] == [None] * 4
    assert differences("b", replace(FACTS, running="x"), "a", FACTS) == [], "what it runs is none"


def test_a_difference_names_both_nodes_and_both_versions() -> None:
    other = replace(FACTS, torch="2.12.0")
    assert differences("b", other, "a", FACTS) == ["b has torch 2.12.0, and a has 2.13.0"]
    assert differences("b", FACTS, "a", FACTS) == []


def test_numa_domains_and_cores_are_counted_as_far_as_they_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make two domains of two cores with two threads each, and one of memory alone."""
    assert [parse_list(text) for text in ("0-2,8\n", "")] == [[0, 1, 2, 8], []]
    assert own_topology(tmp_path) == Topology(domains=1, cores=len(os.sched_getaffinity(0)))
    system = tmp_path / "sys/devices/system"
    domains = enumerate(("0-1,4-5", "2-3,6-7", ""))
    write(system, {f"node/node{domain}/cpulist": f"{processors}\n" for domain, processors in domains})
    siblings = {
        f"cpu/cpu{each}/topology/thread_siblings_list": f"{each % 4},{each % 4 + 4}\n" for each in range(8)
    }
    write(system, siblings)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert own_topology(tmp_path) == Topology(domains=2, cores=4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4, 5})
    assert own_topology(tmp_path) == Topology(domains=1, cores=2)


# What a job leaves on a node is gone before the next one begins.


@pytest.fixture
def own_yard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let this process be a node of a yard of its own, so that no other test's job counts as running."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:9{tmp_path}")


@pytest.mark.usefixtures("own_yard")
def test_an_imitated_node_runs_the_jobs_of_its_own_yard_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without namespaces it sees all processes of this machine, whoever's they are."""
    starting = ["sh", "-c", "echo runs; read line"]
    environment = {**os.environ, "SLIPWAY_JOB": f"ours-{os.getpid()}"}
    with subprocess.Popen(starting, env=environment, stdin=-1, stdout=-1, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "runs\n"
        assert jobs_here() == [environment["SLIPWAY_JOB"]]
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9/another")
        assert environment["SLIPWAY_JOB"] not in jobs_here()
        monkeypatch.delenv(ROOT_VARIABLE)
        assert environment["SLIPWAY_JOB"] in jobs_here(), "a machine is no yard's"
        running.communicate()


@pytest.mark.usefixtures("own_yard")
def test_what_ranks_left_in_memory_is_removed_once_no_job_runs(tmp_path: Path) -> None:
    memory, elsewhere = tmp_path / "shm", tmp_path / "elsewhere"
    (memory / "session").mkdir(parents=True)
    (memory / "session" / "segment").touch()
    (memory / "torch_1").touch()
    elsewhere.mkdir()
    (memory / "link").symlink_to(elsewhere)
    job = f"glue-{os.getpid()}"
    environment = {**os.environ, "SLIPWAY_JOB": job}
    starting = ["sh", "-c", "echo runs; sleep 60; :"]  # Linux shows no environment for an instant of a start
    with subprocess.Popen(starting, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "runs\n"
        clear_memory(os.geteuid(), memory)
        assert {path.name for path in memory.iterdir()} == {"session", "torch_1", "link"}
        end_processes(job, 1.0)
    clear_memory(os.geteuid(), memory)
    assert (list(memory.iterdir()), elsewhere.exists()) == ([], True)


@pytest.mark.usefixtures("own_yard")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_another_user_has_in_memory_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    os.chown(tmp_path / "theirs", 64001, 64001)
    clear_memory(os.geteuid(), tmp_path)
    assert (tmp_path / "theirs").exists()


# A cluster is ready when the declared number of nodes answered together; missing ones are named.

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
@pytest.mark.usefixtures("own_yard")
@pytest.mark.skipif(not MPI, reason="neither Open MPI nor MPICH is installed")
def test_nodes_that_answer_are_asked_together_and_those_that_do_not_are_left_out(
    start: Start, as_node: Callable[[Node], None]
) -> None:
    """Run a real all-reduce of torch through a real mpirun."""
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
