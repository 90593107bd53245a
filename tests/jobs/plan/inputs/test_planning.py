"""`plan` searches until its goal is proven, says what no plan keeps, and repeats itself by iterations."""

from __future__ import annotations

import pytest

import slipway
from slipway.jobs.plan.inputs.portfolio import is_installed
from slipway.jobs.plan.search.model import Plan
from slipway.jobs.plan.search.refusals import CannotPlan
from tests.jobs.plan.search.small import POOL, cut_jobs, job


def test_a_plan_that_nothing_beats_is_found_and_told() -> None:
    told: list[Plan] = []
    plan = slipway.plan(cut_jobs(), [POOL], target_gap=0.0, progress=told.append)
    assert (plan.makespan, plan.gap, plan.stopped) == (1000, 0.0, "proven")
    assert told[0].value >= told[-1].value == 1000


def test_the_same_iterations_find_the_same_plan() -> None:
    jobs = [*cut_jobs(), job("more", (3, 70)), job("most", (1, 400), (7, 60))]
    first, second = (slipway.plan(jobs, [POOL], target_gap=0.0, seed=5, iterations=2) for _ in range(2))
    assert first == second


def test_no_time_gives_the_first_plan() -> None:
    plan = slipway.plan([*cut_jobs(), job("more", (3, 70))], [POOL], target_gap=0.0, time_limit=0)
    assert plan.stopped in ("time limit", "proven")
    assert len(plan.assignments) == 6


@pytest.mark.skipif(not is_installed("exact"), reason="needs ortools: the extra cpsat")
def test_deadlines_that_no_plan_keeps_together_are_refused_with_the_proof() -> None:
    jobs = [job(f"job{place}", (8, 100), deadline=150) for place in range(2)]
    with pytest.raises(CannotPlan, match="there is no plan that ends every job by its deadline"):
        slipway.plan(jobs, [POOL], time_limit=20)


def test_a_job_with_a_deadline_goes_first() -> None:
    jobs = [*(job(f"job{place}", (8, 100)) for place in range(3)), job("urgent", (8, 90), deadline=190)]
    assert slipway.plan(jobs, [POOL]).assignments[-1].end <= 190


def test_a_plan_explains_its_choices_and_compares_itself_with_another() -> None:
    jobs = cut_jobs()
    earlier = slipway.plan(jobs, [POOL], time_limit=0)
    assert earlier.explain(jobs[0].name).why
    found = earlier.diff(earlier)
    assert (found.changes, found.same) == ((), len(jobs))
