"""A running job stays where it is, unless moving it gains more than twice what the move costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from slipway.jobs.plan.search.model import Assignment, Goal, NodeDevices, PlanJob, Pool
from slipway.jobs.plan.search.replan import Replanned, Situation, Standing, replan
from tests.jobs.plan.search.small import TWO_NODES, best_of_all, job

SWITCH = 60


def on(of: PlanJob, mode: int, node: int, first: int = 0, start: int = 0) -> Assignment:
    way = of.modes[mode]
    share = NodeDevices(node=node, devices=tuple(range(first, first + way.devices)))
    return Assignment(job=of.name, mode=way, pool=0, start=start, seconds=way.seconds, placement=(share,))


def answer(
    *jobs: PlanJob,
    standings: Mapping[str, Standing],
    switch: int = SWITCH,
    lost: Collection[tuple[int, int]] = (),
    pools: tuple[Pool, ...] = (TWO_NODES,),
) -> Replanned:
    return replan(
        Situation(
            jobs=jobs,
            pools=pools,
            goal=Goal(),
            standings={each.name: standings.get(each.name, Standing()) for each in jobs},
            switch_seconds=switch,
            lost=frozenset(lost),
        ),
        best_of_all,
    )


LONG = job("long", (4, 2000), (8, 1000))


def test_a_running_job_gets_more_devices_when_that_gains_more_than_twice_the_move() -> None:
    running = on(LONG, 0, node=1)
    found = answer(LONG, standings={"long": Standing(left=0.9, running=running, planned=running)})
    assert (found.moved, found.value) == (("long",), 960)  # if it stayed, 1800
    assert found.slots["long"].option.devices == 8


@pytest.mark.parametrize(("left", "switch"), [(0.9, 301), (0.17, SWITCH)])
def test_a_running_job_stays_when_moving_it_gains_little(left: float, switch: int) -> None:
    running = on(LONG, 0, node=1, first=4)
    found = answer(
        LONG, switch=switch, standings={"long": Standing(left=left, running=running, planned=running)}
    )
    assert found.moved == ()
    assert found.slots["long"].placement == running.placement


def test_nobody_moves_for_the_sake_of_others_that_end_no_sooner() -> None:
    other = job("other", (4, 1700), (8, 1650))
    running, beside = on(LONG, 0, node=0), on(other, 0, node=1)
    standings = {
        "long": Standing(left=0.1, running=running, planned=running),
        "other": Standing(running=beside, planned=beside),
    }
    assert answer(LONG, other, standings=standings).moved == ()


def test_a_job_of_a_lost_node_goes_on_elsewhere_with_what_it_saved() -> None:
    found = answer(LONG, lost={(0, 0)}, standings={"long": Standing(left=0.5, planned=on(LONG, 1, node=0))})
    assert [share.node for share in found.slots["long"].placement] == [1]
    assert found.value == 1000 * 0.5 + SWITCH


def test_a_job_that_fits_nowhere_any_more_waits_and_so_do_those_after_it() -> None:
    gang, later = job("gang", (16, 100)), job("later", (1, 5), after=("gang",))
    found = answer(gang, later, LONG, lost={(0, 1)}, standings={})
    assert found.homeless == ("gang", "later")
    assert [*found.slots] == ["long"]


def test_a_job_that_takes_longer_than_estimated_is_planned_so() -> None:
    running = on(LONG, 1, node=0)
    found = answer(
        LONG, standings={"long": Standing(left=0.5, ratios={"p4d": 1.4}, running=running, planned=running)}
    )
    assert found.value == 700


def test_with_nothing_new_the_plan_stays_as_it_is() -> None:
    jobs = [job(name, (8, 100)) for name in "abcd"]
    planned = [on(each, 0, node=place % 2, start=100 * (place // 2)) for place, each in enumerate(jobs)]
    standings = {
        each.name: Standing(planned=mine, running=mine if mine.start == 0 else None)
        for each, mine in zip(jobs, planned, strict=True)
    }
    found = answer(*jobs, standings=standings)
    assert [found.slots[each.name].start for each in jobs] == [0, 0, 100, 100]
    assert [found.slots[each.name].placement for each in jobs[:2]] == [each.placement for each in planned[:2]]


def test_a_job_that_has_just_begun_stays_however_much_moving_it_would_gain() -> None:
    running = on(LONG, 0, node=1)
    begun = Standing(running=running, planned=running, must_stay=True)
    assert answer(LONG, standings={"long": begun}).moved == ()


def test_what_only_one_cluster_has_saved_is_lost_on_another_even_of_the_same_type() -> None:
    lost_first = {(0, 0), (0, 1)}
    saved = Standing(left=0.1, saved_in=frozenset({0}), planned=on(LONG, 1, node=0))
    pools = (TWO_NODES, TWO_NODES)
    here = answer(LONG, standings={"long": saved}, pools=pools)
    assert (here.value, here.slots["long"].option.pool) == (100 + SWITCH, 0)
    there = answer(LONG, standings={"long": saved}, pools=pools, lost=lost_first)
    assert (there.value, there.slots["long"].option.pool) == (1000 + SWITCH, 1)


def test_a_pace_that_was_measured_on_one_instance_type_says_nothing_of_another() -> None:
    slow = Standing(left=0.5, ratios={"trn1": 3.0}, planned=on(LONG, 1, node=0))
    assert answer(LONG, standings={"long": slow}).value == 1000 * 0.5 + SWITCH
