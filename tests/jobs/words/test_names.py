"""Derived names: within AWS's limits, and never two clusters with one name."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.words.names import LIMITS, PARTS, derived_name, stack_name

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
