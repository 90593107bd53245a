"""The request that a laptop writes and the main node reads: what goes in comes out, and nothing else."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.words.job import DamagedRequest
from slipway.jobs.words.mpi import _CHECKS, MpiJob, command_seconds, decode, encode, longest_timeout

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


def test_every_field_is_checked_when_it_is_read() -> None:
    assert set(_CHECKS) == {field.name for field in fields(MpiJob)}


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


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_what_is_no_request_at_all_is_refused(text: str) -> None:
    with pytest.raises(DamagedRequest):
        decode(text, where="here")
