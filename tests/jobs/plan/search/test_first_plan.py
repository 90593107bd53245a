"""First plans are valid, quick and reasonable for every goal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scripts.plan_comparisons import marginal_gain, whole_node
from slipway.jobs.plan.search.first_plan import greedy
from slipway.jobs.plan.search.list_schedule import Slot, score_of
from slipway.jobs.plan.search.model import Billing, Goal, Mode, Objective, PlanJob, Pool
from slipway.jobs.plan.search.options import PlanProblem, new_problem
from tests.jobs.plan.search.small import POOL, assert_valid, job, problem_of, tiny_problem

Baseline = Callable[[PlanProblem], list[Slot]]

BASELINES = (greedy, whole_node, marginal_gain)


def cheap_and_quick(goal: Goal) -> PlanProblem:
    modes = (
        Mode(technique="ddp", type="slow", devices=1, seconds=3600),
        Mode(technique="ddp", type="fast", devices=1, seconds=600),
    )
    jobs = [PlanJob(name=f"job{place}", modes=modes) for place in range(4)]
    slow = Pool(type="slow", nodes=1, devices_per_node=4, price_per_hour=4.0)
    fast = Pool(type="fast", nodes=1, devices_per_node=4, price_per_hour=40.0)
    return new_problem(jobs, [slow, fast], goal)


@pytest.mark.parametrize("baseline", BASELINES)
def test_every_baseline_gives_each_job_its_own_devices(baseline: Baseline) -> None:
    for seed in range(12):  # four with each count of pools
        problem = tiny_problem(seed, jobs=6, pools=1 + seed % 3)
        assert_valid(problem, baseline(problem))


def test_the_first_plan_is_never_worse_than_whole_nodes_or_marginal_gain_on_many_jobs() -> None:
    jobs = [
        job(f"job{place}", *((count, 1000 + place * 100 // count) for count in range(1, 9)))
        for place in range(60)
    ]
    problem = problem_of(*jobs, pool=replace(POOL, nodes=4))
    ours = score_of(problem, greedy(problem))
    assert ours <= min(score_of(problem, whole_node(problem)), score_of(problem, marginal_gain(problem)))


def test_the_first_plan_for_least_dollars_is_as_slow_as_the_deadline_allows() -> None:
    cheap = Goal(objective=Objective.COST, deadline=3600)
    assert {slot.option.mode.type for slot in greedy(cheap_and_quick(cheap))} == {"slow"}
    hurried = replace(cheap, deadline=700)
    assert {slot.option.mode.type for slot in greedy(cheap_and_quick(hurried))} == {"fast"}


def test_the_first_plan_stays_within_a_budget_that_has_room() -> None:
    problem = cheap_and_quick(Goal(budget=5.0))
    missed, over, _ = score_of(problem, greedy(problem))
    assert (missed, over) == (0, 0)


def test_the_first_plan_fills_few_nodes_where_whole_nodes_are_paid() -> None:
    jobs = [job(f"job{place}", (2, 3600)) for place in range(4)]
    goal = Goal(objective=Objective.COST, deadline=7200, billing=Billing.NODE)
    problem = problem_of(*jobs, pool=replace(POOL, nodes=4, price_per_hour=10.0), goal=goal)
    assert score_of(problem, greedy(problem)) == (0, 0, 10.0)


def test_whole_nodes_are_paid_though_some_modes_take_more_nodes_than_a_first_plan_tries() -> None:
    pool = replace(POOL, nodes=3)
    problem = problem_of(job("gang", (8, 100), (24, 40)), pool=pool, goal=Goal(billing=Billing.NODE))
    assert score_of(problem, greedy(problem)) == (0, 0, 40)


def test_a_job_with_a_deadline_goes_before_others() -> None:
    problem = problem_of(job("a", (8, 1000)), job("b", (8, 10), deadline=20))
    assert [slot.start for slot in greedy(problem)] == [10, 0]


def test_a_job_is_quick_where_one_that_waits_for_it_has_a_deadline() -> None:
    jobs = [
        job("long", (8, 1000)),
        job("first", (1, 70), (8, 10)),
        job("last", (8, 10), after=("first",), deadline=25),
    ]
    assert [slot.start for slot in greedy(problem_of(*jobs))] == [20, 0, 10]
