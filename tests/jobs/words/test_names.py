"""Derived names are within AWS's limits and never alike; a region that AWS lacks is refused as typed."""

from __future__ import annotations

import re

import pytest
from botocore.session import get_session
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.words.names import (
    LIMITS,
    OTHER_PARTITIONS,
    PARTS,
    REGIONS,
    UnknownRegion,
    checked_region,
    derived_name,
    stack_name,
)
from tests.jobs.conftest import Slipway
from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard

cluster_names = st.from_regex(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", fullmatch=True).filter(
    lambda name: len(name) <= 300 and name.rpartition("-")[2] not in PARTS
)
parts = st.sampled_from(["", *sorted(PARTS)])
sorts = st.sampled_from(sorted(LIMITS))


def test_a_short_name_is_used_as_it_is() -> None:
    assert stack_name("dl1", "network") == "dl1-network"
    assert stack_name("dl1") == "dl1"


def test_two_long_clusters_with_one_beginning_get_two_names_within_the_limit() -> None:
    first, second = (stack_name("a" * 120 + end, "observability") for end in "xy")
    assert first != second
    assert len(first) == len(second) == 128


def test_a_cluster_called_like_the_shortened_name_of_another_gets_a_name_of_its_own() -> None:
    shortened = stack_name("a" * 120, "observability")
    assert stack_name(shortened) != shortened


@given(sort=sorts, one=st.tuples(cluster_names, parts), other=st.tuples(cluster_names, parts))
def test_different_clusters_never_share_a_derived_name(
    sort: str, one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert (derived_name(sort, *one) == derived_name(sort, *other)) == (one == other)


@given(sort=sorts, cluster=cluster_names, part=parts)
def test_a_derived_name_fits_its_limit_and_keeps_to_the_letters_that_every_service_takes(
    sort: str, cluster: str, part: str
) -> None:
    name = derived_name(sort, cluster, part)
    assert len(name) <= LIMITS[sort]
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)


def test_a_part_with_a_hyphen_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="no hyphen"):
        derived_name("stack", "dl1", "my-network")


# A region that AWS does not have is refused as typed, before any call.
# BI-015
UNKNOWN = [
    "xx-fake-9",
    "US-EAST-1",
    " us-east-1",
    "us-east-1 ",
    "us-east-1\n",
    "us-east-1a",
    "useast1",
    "*",
    "é",
]


def test_the_regions_are_those_that_botocore_knows() -> None:
    session = get_session()
    known = {
        partition: set(session.get_available_regions("ec2", partition_name=partition))
        for partition in session.get_available_partitions()
    }
    assert set().union(*known.values()) == set(REGIONS)
    assert {region for region in REGIONS if not region.startswith(OTHER_PARTITIONS)} == known["aws"]


@pytest.mark.parametrize("region", UNKNOWN)
def test_a_region_is_neither_corrected_nor_guessed(region: str) -> None:
    with pytest.raises(UnknownRegion, match="AWS has no region"):
        checked_region(region)


@pytest.mark.parametrize("region", UNKNOWN)
@pytest.mark.parametrize(
    "command", [("submit", "bert_pretrain", "--on", "dl1", "--nodes", "1"), ("cluster", "targets")]
)
def test_an_unknown_region_is_the_user_s_mistake_in_every_command(
    slipway: Slipway, yard_shell: RunningYard, region: str, command: tuple[str, ...]
) -> None:
    err = slipway.told(*command, "--region", region, code=2)
    assert err.startswith(f"error: AWS has no region {region!r}")
    assert "yard" not in err


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_an_unknown_region_of_the_environment_is_refused_too(
    slipway: Slipway, yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv(variable, "US-EAST-1")
    code, _, err = slipway("status")
    assert (code, "AWS has no region 'US-EAST-1'" in err, "did you mean us-east-1?" in err) == (2, True, True)


def test_the_yard_tells_another_tool_of_the_region_and_not_of_a_fault_of_its_own(yard: RunningYard) -> None:
    for service, operation, status in (("ecs", "list_clusters", 400), ("batch", "describe_job_queues", 403)):
        refused = refusal(getattr(yard.client(service, "xx-fake-9"), operation))
        assert (refused["status"], refused["Code"]) == (status, "InvalidSignatureException")
        assert "a valid region, not 'xx-fake-9'" in refused["Message"]
