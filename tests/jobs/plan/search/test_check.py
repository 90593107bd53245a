"""The checker finds everything that makes a plan impossible, independently of the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.plan.search.check import InvalidPlan, check
from slipway.jobs.plan.search.model import (
    Assignment,
    Billing,
    Goal,
    LowerBound,
    Mode,
    NodeDevices,
    Objective,
    Plan,
    PlanJob,
    Pool,
)

POOL = Pool(type="p4d", nodes=4, devices_per_node=8, price_per_hour=36.0)
SMALL = Mode(technique="ddp", type="p4d", devices=2, seconds=100)
GANG = Mode(technique="fsdp", type="p4d", devices=16, seconds=50)


def shares(*each: tuple[int, tuple[int, ...]]) -> tuple[NodeDevices, ...]:
    return tuple(NodeDevices(node=node, devices=devices) for node, devices in each)


def placed(job: str, mode: Mode, start: int, *on: tuple[int, tuple[int, ...]]) -> Assignment:
    return Assignment(job=job, mode=mode, pool=0, start=start, seconds=mode.seconds, placement=shares(*on))


WHOLE = tuple(range(8))
PLAN = Plan(
    jobs=(
        PlanJob(name="a", modes=(SMALL,)),
        PlanJob(name="b", modes=(SMALL, GANG)),
        PlanJob(name="c", modes=(SMALL,), depends_on=("a",)),
    ),
    pools=(POOL,),
    goal=Goal(),
    assignments=(
        placed("a", SMALL, 0, (0, (0, 1))),
        placed("b", GANG, 0, (1, WHOLE), (2, WHOLE)),
        placed("c", SMALL, 100, (0, (0, 1))),
    ),
    bound=LowerBound(value=200, name="chain of dependencies"),
)


def changed(place: int, **fields: Any) -> Plan:
    assignments = list(PLAN.assignments)
    assignments[place] = replace(assignments[place], **fields)
    return replace(PLAN, assignments=tuple(assignments))


def pool(**fields: Any) -> Plan:
    return replace(PLAN, pools=(replace(POOL, **fields),))


def goal(**fields: Any) -> Plan:
    return replace(PLAN, goal=Goal(**fields))


BROKEN: dict[str, tuple[Callable[[], Plan], str]] = {
    "a job is missing": (lambda: replace(PLAN, assignments=PLAN.assignments[1:]), "'a' is planned 0 times"),
    "many mistakes in one line": (lambda: replace(PLAN, pools=(replace(POOL, nodes=0),)), "and 1 more"),
    "a job runs twice": (
        lambda: replace(PLAN, assignments=(*PLAN.assignments, PLAN.assignments[0])),
        "'a' is planned 2 times",
    ),
    "a job that nobody asked for": (lambda: replace(PLAN, jobs=PLAN.jobs[:2]), "was not asked for"),
    "one name for two jobs": (lambda: replace(PLAN, jobs=(*PLAN.jobs, PLAN.jobs[0])), "2 jobs are named"),
    "a mode of another job": (lambda: changed(0, mode=GANG), "'a' has no mode fsdp on 16 devices"),
    "a pool that is not there": (lambda: changed(0, pool=1), "in pool 1 of 1"),
    "a pool of another type": (lambda: pool(type="p3"), "has a mode for p4d and runs in a pool of p3"),
    "a start before the beginning": (lambda: changed(0, start=-1), "starts at -1"),
    "too short a time": (lambda: changed(0, seconds=99), "is given 99 s and needs 100 s"),
    "too long a time": (lambda: changed(1, seconds=51), "is given 51 s and needs 50 s"),
    "no time for interruptions": (
        lambda: pool(is_spot=True, interruptions_per_hour=1.0, rework_seconds=1800),
        "needs 150 s",
    ),
    "too few devices": (lambda: changed(0, placement=shares((0, (0,)))), "has 1 devices and its mode 2"),
    "one device twice in a job": (
        lambda: changed(0, placement=shares((0, (1, 1)))),
        "names a device twice",
    ),
    "a node that is not there": (lambda: changed(0, placement=shares((4, (0, 1)))), "on node 4 of 4"),
    "a device that is not there": (lambda: changed(0, placement=shares((0, (7, 8)))), "devices (7, 8) of 8"),
    "two nodes for a small job": (
        lambda: changed(0, placement=shares((0, (0,)), (3, (0,)))),
        "does not take all of each",
    ),
    "a node twice in a job": (
        lambda: changed(1, placement=shares((1, WHOLE), (1, WHOLE))),
        "names a node twice",
    ),
    "a gang where nodes are not joined": (lambda: pool(spans_nodes=False), "stays inside one"),
    "two jobs on one device": (
        lambda: changed(1, placement=shares((0, WHOLE), (1, WHOLE))),
        "both have device 0 of node 0 in pool 0 at 0 s",
    ),
    "a start before a dependency's end": (
        lambda: changed(2, start=99, placement=shares((3, (0, 1)))),
        "starts before 'a' has ended",
    ),
    "an end after the deadline": (lambda: goal(deadline=199), "'c' ends at 200 s, after its deadline of 199"),
    "an end after the job's own deadline": (
        lambda: replace(PLAN, jobs=(replace(PLAN.jobs[0], deadline=99), *PLAN.jobs[1:])),
        "'a' ends at 100 s",
    ),
    "more than the budget": (lambda: goal(budget=1.4), "it costs 1.50 dollars, and the budget is 1.40"),
    "more than the budget, by whole nodes": (
        lambda: goal(budget=2.99, billing=Billing.NODE),
        "it costs 3.00 dollars",
    ),
    "less than its lower bound": (
        lambda: replace(PLAN, bound=LowerBound(value=201, name="area")),
        "its lower bound (area) is 201, and it needs only 200",
    ),
    "less dollars than its lower bound": (
        lambda: replace(goal(objective=Objective.COST), bound=LowerBound(value=1.6, name="area")),
        "it needs only 1.5",
    ),
}


def test_a_right_plan_passes() -> None:
    check(PLAN)
    check(goal(deadline=200, budget=1.5))
    check(goal(budget=3.0, billing=Billing.NODE))
    check(changed(2, start=100))  # devices pass from one job to the next at one moment


@pytest.mark.parametrize("broken", BROKEN)
def test_a_plan_is_refused_with(broken: str) -> None:
    make, said = BROKEN[broken]
    with pytest.raises(InvalidPlan) as refused:
        check(make())
    assert said in refused.value.message
    assert "\n" not in refused.value.message
