"""A plan says why a job has its mode, and how another mode would change the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.plan.search.diff import Difference, diff
from slipway.jobs.plan.search.explain import explain
from slipway.jobs.plan.search.list_schedule import as_plan, list_schedule
from slipway.jobs.plan.search.model import Goal, LowerBound, Objective, Plan, PlanJob, Pool
from slipway.jobs.plan.search.options import new_problem
from slipway.jobs.plan.search.refusals import CannotPlan
from tests.jobs.plan.search.small import job

POOL = Pool(type="p4d", nodes=1, devices_per_node=4, price_per_hour=36.0)
JOBS = (job("a", (1, 400), (2, 220), (4, 130)), job("b", (2, 400)), job("c", (1, 100)))


def plan(jobs: tuple[PlanJob, ...] = JOBS, goal: Goal | None = None, choice: tuple[int, ...] = (0,)) -> Plan:
    problem = new_problem(jobs, [POOL], goal or Goal())
    chosen = [*choice, *(0 for _ in jobs[len(choice) :])]
    slots = list_schedule(problem, chosen, range(len(jobs)))
    return as_plan(problem, slots, LowerBound(value=100, name="area"))


def test_the_next_best_mode_says_what_the_plan_would_take_with_it() -> None:
    found = explain(plan(), "a")
    assert found.alternatives[0].is_chosen
    assert [(each.option.devices, each.makespan) for each in found.alternatives] == [
        (1, 400),
        (2, 400),
        (4, 530),
    ]
    assert found.next_best == "ddp on 2 devices of p4d: with it the plan's makespan is at most 0:06:40, +0.0%"
    assert found.why == "no other mode takes fewer device-hours"
    late = explain(plan(goal=Goal(deadline=410)), "a")
    assert [each.misses for each in late.alternatives] == ["", "", "the deadline"]
    only = explain(plan(), "b")
    assert (only.why, only.next_best) == ("no pool has room for another mode", "there is none")
    jobs = (*JOBS[1:], job("last", (1, 50), (2, 40), after=("b",)))
    assert [each.makespan for each in explain(plan(jobs), "last").alternatives] == [450, 440]


def test_a_mode_that_takes_more_than_it_could_is_compared_with_what_takes_least() -> None:
    found = explain(plan(choice=(2,)), "a")
    assert found.why == (
        "ddp on 1 device of p4d takes the fewest device-hours (23.1% fewer) and 0:06:40, here 0:02:10"
    )
    assert (
        "with it the plan's makespan is at most 0:06:40, -24.5%; a longer search may find it"
        in found.next_best
    )


def test_dollars_are_what_counts_where_dollars_are_the_goal() -> None:
    found = explain(plan(goal=Goal(objective=Objective.COST)), "a")
    assert found.why == "no other mode takes fewer dollars"
    assert "with it the plan's cost is at most $3.35, +3.1%" in found.next_best


def test_a_stranger_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(CannotPlan, match="there is no job 'gpt' to explain") as refused:
        explain(plan((replace(JOBS[0], name="gpt2"),)), "gpt")
    assert refused.value.hint == "did you mean gpt2?"


def test_a_plan_differs_from_another_job_by_job() -> None:
    before = plan()
    after = plan((*JOBS[:2], job("d", (4, 10))), choice=(1,))
    found = diff(after, before)
    assert {each.job: each.difference for each in found.changes} == {
        "a": Difference.MODE,
        "b": Difference.PLACE,
        "c": Difference.REMOVED,
        "d": Difference.ADDED,
    }
    assert found.changes[0].before == "ddp on 1 × p4d (node 0: 0), 0:00:00 to 0:06:40"
    assert (found.same, found.makespan_seconds) == (0, 10)


def test_a_plan_does_not_differ_from_itself() -> None:
    found = diff(plan(), plan())
    assert (found.changes, found.same, found.makespan_seconds, found.dollars) == ((), 3, 0, 0.0)
    later = replace(plan(), assignments=tuple(replace(each, start=5) for each in plan().assignments))
    assert {each.difference for each in diff(later, plan()).changes} == {Difference.TIME}
