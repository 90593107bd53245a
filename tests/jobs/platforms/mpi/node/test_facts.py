"""What a node says of itself, and what the main node makes of nodes that differ."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node.facts import (
    NodeFacts,
    decode_facts,
    differences,
    encode_facts,
    own_topology,
    parse_list,
)
from slipway.jobs.words.mpi import Topology

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


@pytest.mark.parametrize("text", ["", "Welcome!", "{}", "[]"])
def test_a_node_that_says_something_else_has_said_nothing(text: str) -> None:
    assert decode_facts(text) is None


def test_a_difference_names_both_nodes_and_both_versions() -> None:
    other = replace(FACTS, torch="2.12.0")
    assert differences("b", other, "a", FACTS) == ["b has torch 2.12.0, and a has 2.13.0"]
    assert differences("b", FACTS, "a", FACTS) == []


def test_what_a_node_runs_is_no_difference() -> None:
    assert differences("b", replace(FACTS, running="x"), "a", FACTS) == []


def test_lists_of_processors_are_read_as_the_kernel_writes_them() -> None:
    assert parse_list("0-2,8\n") == [0, 1, 2, 8]
    assert parse_list("") == []


def test_numa_domains_and_cores_are_counted_as_far_as_they_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two domains of two cores with two threads each, and one of no processor, as memory alone makes."""
    for domain, processors in enumerate(("0-1,4-5", "2-3,6-7", "")):
        write(tmp_path / f"sys/devices/system/node/node{domain}/cpulist", processors)
    for processor in range(8):
        siblings = f"{processor % 4},{processor % 4 + 4}"
        write(tmp_path / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list", siblings)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert own_topology(tmp_path) == Topology(domains=2, cores=4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4, 5})
    assert own_topology(tmp_path) == Topology(domains=1, cores=2)


def test_a_machine_that_says_nothing_of_itself_has_one_domain(tmp_path: Path) -> None:
    assert own_topology(tmp_path) == Topology(domains=1, cores=len(os.sched_getaffinity(0)))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f"{text}\n")
