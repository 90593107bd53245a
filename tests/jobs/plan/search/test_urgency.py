"""Urgent jobs go first among those that share their devices, and nothing else moves."""

from __future__ import annotations

from dataclasses import replace

from slipway.jobs.plan.search.check import check
from slipway.jobs.plan.search.list_schedule import as_plan, list_schedule, urgent_first
from slipway.jobs.plan.search.model import LowerBound, PlanJob
from slipway.jobs.plan.search.options import PlanProblem
from tests.jobs.plan.search.small import job, problem_of


def starts(problem: PlanProblem) -> list[int]:
    slots = list_schedule(problem, [0] * len(problem.jobs), range(len(problem.jobs)))
    turned = urgent_first(problem, slots)
    check(as_plan(problem, turned, LowerBound(value=0, name="none")))
    return [slot.start for slot in turned]


def with_priority(one: PlanJob, priority: int) -> PlanJob:
    return replace(one, priority=priority)


def test_higher_priorities_and_earlier_deadlines_go_first() -> None:
    jobs = [job("a", (8, 10)), job("b", (8, 20)), job("c", (8, 30)), job("d", (8, 40), deadline=40)]
    assert starts(problem_of(*jobs[:2], with_priority(jobs[2], 5), jobs[3])) == [70, 80, 40, 0]


def test_a_job_that_others_wait_for_keeps_its_place() -> None:
    last = PlanJob(name="last", modes=job("last", (8, 10)).modes, depends_on=("first",), priority=9)
    assert starts(problem_of(job("first", (8, 50)), last)) == [0, 50]


def test_jobs_on_other_devices_keep_their_places() -> None:
    jobs = [job("a", (5, 10)), job("b", (3, 40)), with_priority(job("c", (8, 30)), 3)]
    assert starts(problem_of(*jobs)) == [0, 0, 40]


def test_a_job_in_a_gap_is_not_overrun() -> None:
    jobs = [job("a", (4, 10)), job("long", (4, 60)), job("gap", (2, 20)), with_priority(job("b", (4, 30)), 3)]
    assert starts(problem_of(*jobs)) == [0, 0, 10, 30]
