"""Bounds are true: no plan of a tiny problem is below them, and their knapsacks are optimal."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from slipway.jobs.plan.search.bounds.prove import least_makespan, prove, raise_makespan
from slipway.jobs.plan.search.bounds.table import OptionTable
from slipway.jobs.plan.search.knapsack.filling import Filling, Numbers, Whole, plain_fill
from slipway.jobs.plan.search.list_schedule import list_schedule, score_of
from slipway.jobs.plan.search.model import Billing, Goal, LowerBound, Objective
from slipway.jobs.plan.search.options import PlanProblem, new_problem
from tests.jobs.plan.search.small import POOL, job, problem_of, tiny_problem

SEEDS = range(12)
SPLIT_SEEDS = (17, 28, 33, 52)  # here each half of a case matters to the bound


def bounds_of(problem: PlanProblem) -> list[LowerBound]:
    found: list[LowerBound] = []
    prove(problem, keep_going=lambda: True, proven=found.append)
    return found


def least(problem: PlanProblem) -> float:
    """Try all lists: every option of every job, in every order; plans that break the goal do not count."""
    choices = product(*(range(len(options)) for options in problem.options))
    orders = itertools.permutations(range(len(problem.jobs)))
    scores = (score_of(problem, list_schedule(problem, *each)) for each in product(choices, orders))
    return min((value for missed, over, value in scores if not missed and not over), default=float("inf"))


def one_pool(*modes: Sequence[tuple[int, int]], nodes: int = 1, goal: Goal | None = None) -> PlanProblem:
    jobs = [job(f"job{place}", *ways) for place, ways in enumerate(modes)]
    return problem_of(*jobs, pool=replace(POOL, nodes=nodes, price_per_hour=8.0), goal=goal)


@pytest.mark.parametrize("pools", [1, 2])
def test_no_plan_ends_before_the_bound(pools: int) -> None:
    for seed in (*SEEDS, *SPLIT_SEEDS):
        problem = tiny_problem(seed, jobs=3, pools=pools)
        assert bounds_of(problem)[-1].value <= least(problem), f"seed {seed}"


@pytest.mark.parametrize("billing", Billing)
def test_no_plan_is_cheaper_than_the_bound_of_its_deadline(billing: Billing) -> None:
    for seed in SEEDS:
        deadline = int(least(tiny_problem(seed, jobs=3, pools=2)) * (1 + seed % 3 / 4))
        goal = Goal(objective=Objective.COST, deadline=deadline, billing=billing)
        problem = tiny_problem(seed, jobs=3, pools=2, goal=goal)
        assert bounds_of(problem)[-1].value <= least(problem) * (1 + 1e-9), f"seed {seed}"


def test_no_plan_within_a_budget_ends_before_the_bound() -> None:
    for seed in SEEDS:
        cheapest = least(tiny_problem(seed, jobs=3, pools=2, goal=Goal(objective=Objective.COST)))
        problem = tiny_problem(seed, jobs=3, pools=2, goal=Goal(budget=cheapest * 1.1))
        assert bounds_of(problem)[-1].value <= least(problem), f"seed {seed}"


def test_each_bound_is_higher_than_the_one_before() -> None:
    for seed in SEEDS:
        values = [bound.value for bound in bounds_of(tiny_problem(seed, jobs=8, pools=1 + seed % 3))]
        assert values == sorted(set(values))
    assert bounds_of(tiny_problem(3, jobs=8)) == bounds_of(tiny_problem(3, jobs=8))


def test_a_bound_that_may_not_go_on_still_knows_the_area() -> None:
    found: list[LowerBound] = []
    prove(one_pool([(8, 100)], [(4, 100)]), keep_going=lambda: False, proven=found.append)
    assert found == [LowerBound(value=150.0, name="area")]


def test_three_jobs_of_which_two_fill_the_time_of_no_device_need_more_than_their_area() -> None:
    jobs = [[(8, 60)], [(8, 60)], *[[(1, 70)]] * 8]
    found = bounds_of(one_pool(*jobs, nodes=2))
    assert found[0] == LowerBound(value=95.0, name="area")
    assert found[-1] == LowerBound(value=120.0, name="device pattern")


@pytest.mark.parametrize(("seed", "pools"), [(6, 2), (12, 1), (52, 1)])
def test_cases_prove_a_plan_optimal_where_patterns_split_a_job(seed: int, pools: int) -> None:
    problem = tiny_problem(seed, jobs=4, pools=pools)
    proven = [bound.value for bound in bounds_of(problem)]
    table = OptionTable(problem)
    known, prices = least_makespan(table)
    worths = prices.of(table).min(axis=1)
    without_cases = [known, *raise_makespan(table, known, worths, keep_going=lambda: True)]
    assert without_cases[-1] < proven[-1] == least(problem)


def test_the_longest_job_a_chain_of_jobs_and_the_cheapest_modes_are_named() -> None:
    assert bounds_of(one_pool([(1, 1000)], [(1, 10)]))[-1] == LowerBound(value=1000.0, name="longest job")
    problem = one_pool([(1, 3600), (8, 900)], [(1, 7200)], goal=Goal(objective=Objective.COST))
    assert bounds_of(problem) == [LowerBound(value=3.0, name="cheapest modes")]
    found = bounds_of(problem_of(job("a", (1, 100)), job("b", (1, 100), after=("a",))))
    assert found[-1] == LowerBound(value=200.0, name="chain of dependencies")


def test_a_deadline_makes_jobs_dearer_than_their_cheapest_modes() -> None:
    goal = Goal(objective=Objective.COST, deadline=3600)
    problem = one_pool(*[[(1, 3600), (2, 2000)]] * 9, goal=goal)
    assert bounds_of(problem)[-1].value > 9.0


def test_what_costs_nothing_needs_no_proof() -> None:
    problem = one_pool([(1, 3600)], [(1, 3600)], goal=Goal(objective=Objective.COST, deadline=9000))
    free = [replace(pool, price_per_hour=0.0) for pool in problem.pools]
    found = bounds_of(new_problem(problem.jobs, free, problem.goal))
    assert found == [LowerBound(value=0.0, name="cheapest modes")]


# Compiled code fills a knapsack as plain Python does, to the last bit, and so makes the same plans.
ROOM = 30


def ways_to_fill() -> list[Filling]:
    pytest.importorskip("numba", reason="needs numba: the extra fast")
    from slipway.jobs.plan.search.knapsack import compiled

    return [plain_fill, compiled.fill]


def random_items(seed: int, items: int) -> tuple[Whole, Whole, Numbers]:
    """Build items of up to three options; some are too long for the room, and some take none of it."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    first = np.cumsum([0, *(dice.randint(0, 3) for _ in range(items))])
    lengths = [dice.randint(0, ROOM + 5) for _ in range(first[-1])]
    return first, np.array(lengths, dtype=np.int64), np.array([dice.random() for _ in lengths])


def most_of_all(first: Whole, lengths: Whole, values: Numbers) -> float:
    """Try every choice of options."""
    found = 0.0
    for choice in product(*([None, *range(first[at], first[at + 1])] for at in range(len(first) - 1))):
        taken = [option for option in choice if option is not None]
        if lengths[taken].sum() <= ROOM:
            found = max(found, float(values[taken].sum()))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_both_ways_to_fill_a_knapsack_find_the_most_and_the_same_table(seed: int) -> None:
    items = random_items(seed, 6)
    tables = [np.full((7, ROOM + 1), np.nan) for _ in ways_to_fill()]
    for fill, table in zip(ways_to_fill(), tables, strict=True):
        fill(table, *items)
    assert tables[0].tolist() == tables[1].tolist()
    assert tables[0][-1, -1] == pytest.approx(most_of_all(*items))
