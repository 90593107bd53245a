"""A job over MPI has the right request, order of nodes and command line for each of three MPIs."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.words.job import DamagedRequest
from slipway.jobs.words.mpi import (
    _CHECKS,
    INTEL_MPI,
    MPICH,
    MPIS,
    OPEN_MPI,
    Answer,
    Launch,
    MpiJob,
    Readiness,
    Topology,
    answers_of,
    command_seconds,
    decode,
    decode_readiness,
    encode,
    encode_readiness,
    host_name,
    hostfile_text,
    longest_timeout,
    mpirun_environment,
    mpirun_words,
    order_members,
    ranks_of,
    threads_of,
)

JOB = MpiJob(
    name="glue-0123456789ab",
    recipe="glue_finetune",
    nodes=4,
    module="slipway.containers.recipes.glue_finetune.train",
    arguments=("--set", "task=mrpc"),
    environment={"SLIPWAY_JOB": "glue-0123456789ab"},
    processes_per_node=None,
    code="0" * 64,
    mpi="open-mpi",
    efa_interfaces=0,
    attempts=1,
    timeout_seconds=3600,
    waits_for=(),
)


@given(words=st.lists(st.text(max_size=50), max_size=5), variables=st.dictionaries(st.text(), st.text()))
def test_any_words_and_variables_reach_the_main_node_as_they_are(
    words: list[str], variables: dict[str, str]
) -> None:
    job = replace(JOB, arguments=tuple(words), environment=variables)
    assert decode(encode(job), where="here") == job


def test_every_field_is_checked_when_it_is_read_and_no_other_text_is_a_request() -> None:
    assert set(_CHECKS) == {field.name for field in fields(MpiJob)}
    for text in ("", "[]", "{", "null"):
        with pytest.raises(DamagedRequest):
            decode(text, where="here")


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": 0},
        {"schema": "2"},
        {"waits_for": "c-1"},
        {"nodes": "4"},
        {"nodes": True},
        {"arguments": "--set"},
        {"arguments": [1]},
        {"environment": {"A": 1}},
        {"processes_per_node": "2"},
        {"stranger": 1},
        {"code": "../" * 20 + "dead"},
        {"code": "0" * 63},
        {"name": "a/../b"},
        {"name": "a\n"},
    ],
)
def test_a_request_of_another_kind_is_refused_with_where_it_lies(changed: dict[str, object]) -> None:
    text = json.dumps({**json.loads(encode(JOB)), **changed})
    with pytest.raises(DamagedRequest, match="s3://bucket/key"):
        decode(text, where="s3://bucket/key")


@given(timeout=st.integers(60, 10**6), attempts=st.integers(1, 10))
def test_the_longest_timeout_of_a_command_s_time_is_the_one_that_it_was_made_for(
    timeout: int, attempts: int
) -> None:
    assert longest_timeout(command_seconds(timeout, attempts), attempts) == timeout


# Everybody computes the same order of a cluster's nodes, and their answers are read back.
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ANSWER = Answer(name="ip-10-0-0-1", instance_id="i-1", answered=False, why="no answer within 20 s")
READINESS = Readiness(nodes=(ANSWER,), ready=False, at=1)


def instance(number: int, minutes: int, **changes: Any) -> dict[str, Any]:
    launched = NOON + timedelta(minutes=minutes)
    return {
        "InstanceId": f"i-{number}",
        "LaunchTime": launched,
        "PrivateIpAddress": f"10.0.0.{number}",
        **changes,
    }


def test_the_main_node_is_the_one_that_runs_longest_and_then_the_lowest_id() -> None:
    instances = [instance(3, 0), instance(1, 5), instance(2, 0)]
    orders = {tuple(member.instance_id for member in order_members(one)) for one in permutations(instances)}
    assert orders == {("i-2", "i-3", "i-1")}
    assert order_members([{**instance(1, 0), "PrivateIpAddress": None}]) == [], "it is no node yet"
    assert host_name("10.30.0.12") == "ip-10-30-0-12"


def test_readiness_is_read_as_it_or_an_older_slipway_wrote_it_and_a_damaged_record_says_nothing() -> None:
    assert decode_readiness(encode_readiness(READINESS)) == READINESS
    record = json.loads(encode_readiness(READINESS))
    del record["nodes"][0]["lasts"]
    found = decode_readiness(json.dumps(record))
    assert found is not None
    assert found.nodes == (ANSWER,)
    damaged = ["", "{}", "[]", '{"schema": 1, "nodes": [1], "ready": true, "at": 1}']
    assert [decode_readiness(text) for text in damaged] == [None] * len(damaged)


def test_a_machine_that_came_since_the_last_check_is_not_counted_as_ready() -> None:
    first, second = answers_of(order_members([instance(1, 0), instance(2, 1)]), READINESS)
    assert first == ANSWER
    assert not second.answered
    assert "not been asked" in second.why


# The command lines of three MPIs: ranks are pinned, and no shell ever reads the value of a variable.
SMALL, LARGE = Topology(domains=1, cores=32), Topology(domains=2, cores=64)  # c6i.16xlarge, c6i.32xlarge
HOSTILE = "a b;$(touch /tmp/x)`id`'\"\\\n"
LAUNCH = Launch(
    program="mpirun",
    hostfile="/run/hostfile",
    hosts=["ip-10-0-0-1", "ip-10-0-0-2"],
    ranks_per_host=1,
    topology=SMALL,
    environment={"SLIPWAY_DATA": HOSTILE},
    command=["python", "-m", "slipway.containers.runtime.launch"],
    efa_interfaces=0,
    has_ccl=False,
)


def follows(words: list[str], *wanted: str) -> bool:
    return any(tuple(words[at : at + len(wanted)]) == wanted for at in range(len(words)))


@pytest.mark.parametrize("mpi", MPIS)
def test_a_value_is_in_the_environment_and_never_in_the_command_line(mpi: str) -> None:
    assert not [word for word in mpirun_words(mpi, LAUNCH) if HOSTILE in word]
    assert mpirun_environment(mpi, LAUNCH)["SLIPWAY_DATA"] == HOSTILE
    assert any("SLIPWAY_DATA" in word for word in mpirun_words(mpi, LAUNCH))


@pytest.mark.parametrize("mpi", MPIS)
def test_the_command_comes_last_and_the_world_is_all_ranks_of_all_hosts(mpi: str) -> None:
    words = mpirun_words(mpi, replace(LAUNCH, ranks_per_host=4))
    assert words[-3:] == LAUNCH.command
    assert follows(words, "-np", "8") or follows(words, "-n", "8")


def test_a_node_has_one_rank_a_numa_domain_unless_somebody_says_so_and_ranks_share_its_cores() -> None:
    assert (ranks_of(None, SMALL), ranks_of(None, LARGE), ranks_of(8, SMALL)) == (1, 2, 8)
    assert (threads_of(1, SMALL), threads_of(2, LARGE), threads_of(100, SMALL)) == (32, 32, 1)
    two = replace(LAUNCH, ranks_per_host=2, topology=LARGE)
    assert mpirun_environment(OPEN_MPI, two)["OMP_NUM_THREADS"] == "32"


@pytest.mark.parametrize(
    ("changes", "by", "to", "bind", "domain"),
    [
        ({"ranks_per_host": 2, "topology": LARGE}, "ppr:1:numa", "numa", "numa", "numa"),
        ({"ranks_per_host": 4}, "ppr:4:node:PE=8", "core", "core:8", "8"),
    ],
    ids=["a domain each", "shares of one domain's cores"],
)
def test_ranks_are_pinned_to_a_numa_domain_where_a_node_has_several(
    changes: dict[str, Any], by: str, to: str, bind: str, domain: str
) -> None:
    launch = replace(LAUNCH, **changes)
    assert follows(mpirun_words(OPEN_MPI, launch), "--map-by", by)
    assert follows(mpirun_words(OPEN_MPI, launch), "--bind-to", to)
    assert follows(mpirun_words(MPICH, launch), "-bind-to", bind)
    assert mpirun_environment(INTEL_MPI, launch)["I_MPI_PIN_DOMAIN"] == domain


@pytest.mark.parametrize("mpi", MPIS)
def test_more_ranks_than_cores_are_pinned_nowhere(mpi: str) -> None:
    crowd = replace(LAUNCH, ranks_per_host=64)
    words = mpirun_words(mpi, crowd)
    pinned_nowhere = follows(words, "--bind-to", "none") or follows(words, "-bind-to", "none")
    assert pinned_nowhere or mpirun_environment(mpi, crowd)["I_MPI_PIN"] == "0"


def test_the_fabric_is_named_only_where_something_uses_it() -> None:
    """Open MPI finds EFA itself; gloo uses only TCP."""
    assert "FI_PROVIDER" not in mpirun_environment(OPEN_MPI, LAUNCH)
    assert mpirun_environment(OPEN_MPI, replace(LAUNCH, efa_interfaces=1))["FI_PROVIDER"] == "efa"
    assert mpirun_environment(INTEL_MPI, LAUNCH)["FI_PROVIDER"] == "tcp"
    assert mpirun_environment(INTEL_MPI, replace(LAUNCH, efa_interfaces=1))["I_MPI_OFI_PROVIDER"] == "efa"


def test_each_mpi_is_told_only_what_it_reads() -> None:
    ccl = replace(LAUNCH, has_ccl=True)
    assert not [name for name in mpirun_environment(OPEN_MPI, ccl) if name.startswith("I_MPI_")]
    assert not [name for name in mpirun_environment(MPICH, LAUNCH) if name.startswith(("I_MPI_", "CCL_"))]
    assert mpirun_environment(MPICH, ccl)["CCL_ATL_TRANSPORT"] == "ofi"
    assert "FI_EFA_USE_DEVICE_RDMA" not in mpirun_environment(INTEL_MPI, replace(ccl, efa_interfaces=1))


def test_the_hostfile_names_the_main_node_first_with_its_ranks() -> None:
    two = replace(LAUNCH, ranks_per_host=2)
    assert hostfile_text(OPEN_MPI, two) == "ip-10-0-0-1 slots=2\nip-10-0-0-2 slots=2\n"
    assert hostfile_text(MPICH, two) == "ip-10-0-0-1:2\nip-10-0-0-2:2\n"
