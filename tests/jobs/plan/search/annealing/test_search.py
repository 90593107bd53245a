"""Annealing finds good plans for every goal, and the same ones again from the same seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from scripts.benchmarks_plans import problem_of
from slipway.jobs.plan.search.baselines import greedy
from slipway.jobs.plan.search.list_schedule import Slot, as_plan, list_schedule
from slipway.jobs.plan.search.model import Billing, Goal, LowerBound, Objective, Plan, Pool
from slipway.jobs.plan.search.options import PlanProblem, new_problem
from tests.jobs.plan.search.small import POOL, cut_jobs, job

pytest.importorskip("numba", reason="needs numba: the extra fast")
from slipway.jobs.plan.search.annealing.search import improve, order_of


def best_plan(problem: PlanProblem, seed: int = 0, chunks: int = 6) -> Plan:
    plans: list[Sequence[Slot]] = []
    improve(problem, seed=seed, keep_going=countdown(chunks), found=plans.append)
    return as_plan(problem, plans[-1], LowerBound(value=0, name="none"))


def countdown(chunks: int) -> Callable[[], bool]:
    left = iter(range(chunks))
    return lambda: next(left, None) is not None


def test_pieces_of_a_rectangle_are_put_together_again() -> None:
    problem = new_problem(cut_jobs(), [POOL], Goal())
    assert best_plan(problem).makespan == 1000


@pytest.mark.parametrize("kind", ["mix", "cut", "gangs"])
def test_a_walk_begins_near_the_plan_that_it_was_given(kind: str) -> None:
    problem = problem_of(kind, 100, 16)
    given = greedy(problem)
    choice = [options.index(slot.option) for options, slot in zip(problem.options, given, strict=True)]
    first = list_schedule(problem, choice, order_of(problem, choice, given))
    assert max(slot.end for slot in first) <= 1.02 * max(slot.end for slot in given)


def test_the_same_seed_finds_the_same_plan() -> None:
    problem = new_problem(cut_jobs() + cut_jobs(), [POOL], Goal())
    assert best_plan(problem, seed=3).assignments == best_plan(problem, seed=3).assignments


def test_the_cheapest_modes_that_meet_the_deadline_are_chosen() -> None:
    jobs = [job(f"job{place}", (1, 800), (8, 150)) for place in range(3)]
    plans = [
        best_plan(new_problem(jobs, [POOL], Goal(objective=Objective.COST, deadline=deadline)))
        for deadline in (900, 500)
    ]
    assert [[each.mode.devices for each in plan.assignments] for plan in plans] == [[1, 1, 1], [8, 8, 8]]


def test_a_budget_is_kept_by_a_longer_plan() -> None:
    jobs = [job(f"job{place}", (1, 800), (8, 150)) for place in range(3)]
    budget = 3 * 36 * 800 / 8 / 3600
    plan = best_plan(new_problem(jobs, [POOL], Goal(budget=budget)))
    assert plan.makespan == 800
    assert plan.dollars == pytest.approx(budget)


def test_a_job_with_a_deadline_comes_before_it() -> None:
    jobs = [*(job(f"job{place}", (8, 100)) for place in range(5)), job("urgent", (8, 90), deadline=190)]
    assert best_plan(new_problem(jobs, [POOL], Goal())).assignments[-1].end <= 190


def test_whole_nodes_that_are_billed_are_filled_before_another_is_opened() -> None:
    pool = Pool(type="p4d", nodes=4, devices_per_node=8, price_per_hour=36.0)
    jobs = [job(f"job{place}", (2, 100)) for place in range(8)]
    goal = Goal(objective=Objective.COST, deadline=900, billing=Billing.NODE)
    assert best_plan(new_problem(jobs, [pool], goal)).dollars == pytest.approx(2 * 36 * 100 / 3600)
