"""A node looks at its cluster often while nodes come and go, and seldom while nothing changes."""

from __future__ import annotations

from slipway.jobs.platforms.mpi.node.serve import REFRESH_SECONDS, RoundPace


def rests(pace: RoundPace, instances: tuple[str, ...], rounds: int) -> list[float]:
    """Return how long it rests after each round that sees these instances."""
    found = []
    for _ in range(rounds):
        pace.slow_down()
        pace.see(instances)
        found.append(pace.rest_s)
    return found


def test_who_waits_for_new_nodes_waits_seconds_and_a_quiet_cluster_costs_few_calls() -> None:
    pace = RoundPace()
    assert rests(pace, ("i-1",), 6) == [2, 4, 8, REFRESH_SECONDS, REFRESH_SECONDS, REFRESH_SECONDS]
    assert rests(pace, ("i-1", "i-2"), 3) == [2, 4, 8]


def test_rounds_that_fail_before_they_see_the_nodes_come_ever_more_seldom() -> None:
    pace = RoundPace()
    for _ in range(5):
        pace.slow_down()
    assert pace.rest_s == REFRESH_SECONDS
