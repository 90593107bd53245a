"""The order of a cluster's nodes is the same for whoever computes it, and what they answered is read back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

from slipway.jobs.words.mpi import (
    Answer,
    Readiness,
    answers_of,
    decode_readiness,
    encode_readiness,
    host_name,
    order_members,
)

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


def test_a_machine_that_has_no_address_yet_is_no_node_yet() -> None:
    assert order_members([{**instance(1, 0), "PrivateIpAddress": None}]) == []


def test_a_node_is_named_by_its_address() -> None:
    assert host_name("10.30.0.12") == "ip-10-30-0-12"


def test_readiness_is_read_as_it_was_written() -> None:
    assert decode_readiness(encode_readiness(READINESS)) == READINESS


def test_a_damaged_record_of_readiness_says_nothing() -> None:
    damaged = ["", "{}", "[]", '{"schema": 1, "nodes": [1], "ready": true, "at": 1}']
    assert [decode_readiness(text) for text in damaged] == [None] * len(damaged)


def test_a_machine_that_came_since_the_last_check_is_not_counted_as_ready() -> None:
    first, second = answers_of(order_members([instance(1, 0), instance(2, 1)]), READINESS)
    assert first == ANSWER
    assert not second.answered
    assert "not been asked" in second.why


def test_readiness_of_a_node_of_an_older_slipway_is_read() -> None:
    record = json.loads(encode_readiness(Readiness(nodes=(ANSWER,), ready=False, at=1)))
    del record["nodes"][0]["lasts"]
    found = decode_readiness(json.dumps(record))
    assert found is not None
    assert found.nodes == (ANSWER,)
