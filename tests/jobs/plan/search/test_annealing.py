"""Annealing shortens plans, and every plan that it finds is valid."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import pytest

from slipway.jobs.plan.search import annealing
from slipway.jobs.plan.search.first_plan import greedy
from slipway.jobs.plan.search.list_schedule import Slot, list_schedule
from slipway.jobs.plan.search.options import PlanProblem
from tests.jobs.plan.search.small import TWO_NODES, assert_valid, cut_jobs, job, problem_of
from tests.jobs.plan.search.test_lanes import makespan, mixture


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the module once more, as where numba is not installed."""
    spec = importlib.util.spec_from_file_location("uncompiled", annealing.__file__)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    spec.loader.exec_module(module)
    return module


def shortened(
    problem: PlanProblem, start: Sequence[Slot], steps: int, seed: int = 0, module: ModuleType = annealing
) -> list[Slot]:
    """Return the last plan that some steps find; each is valid and shorter than the one before."""
    plans = [list(start)]
    left = iter(range(steps))
    module.Annealing(problem, start).improve(
        seed=seed,
        keep_going=lambda: next(left, None) is not None,
        found=lambda slots: plans.append(list(slots)),
    )
    for plan in plans:
        assert_valid(problem, plan)
    spans = [makespan(plan) for plan in plans]
    assert spans == sorted(set(spans), reverse=True)
    return plans[-1]


def test_pieces_of_a_rectangle_are_put_together_again() -> None:
    problem = problem_of(*cut_jobs())
    poor = list_schedule(problem, [0] * len(problem.jobs), range(len(problem.jobs)))
    assert makespan(shortened(problem, poor, 200)) == 1000


@pytest.mark.parametrize("pools", [1, 2])
def test_plans_become_shorter_on_like_and_unlike_pools(pools: int) -> None:
    problem = mixture(24, 2, counts=(1, 2, 4, 8), pools=pools)
    start = greedy(problem)
    assert makespan(shortened(problem, start, 300)) < 0.99 * makespan(start)


def test_one_seed_gives_the_same_plan_again() -> None:
    problem = mixture(12, 1)
    assert shortened(problem, greedy(problem), 50, seed=3) == shortened(problem, greedy(problem), 50, seed=3)


def test_jobs_over_several_nodes_stay_and_others_move_behind_them() -> None:
    gang, early = job("gang", (16, 100)), job("early", (4, 50))
    problem = problem_of(
        early, gang, *(replace(each, name=f"{each.name}x") for each in cut_jobs()), pool=TWO_NODES
    )
    start = list_schedule(problem, [0] * len(problem.jobs), range(len(problem.jobs)))
    best = shortened(problem, start, 200)
    assert best[:2] == start[:2]
    assert makespan(best) < makespan(start)


def test_a_plan_in_which_no_job_can_move_stays() -> None:
    problem = problem_of(job("gang", (16, 100)), job("next", (16, 50)), pool=TWO_NODES)
    start = greedy(problem)
    assert shortened(problem, start, 10) == start


@pytest.mark.parametrize("seed", range(2))
def test_plain_python_finds_the_same_plans(
    seed: int, uncompiled: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, plans = mixture(12, 2, pools=2), []
    start = list_schedule(problem, [0] * len(problem.jobs), range(len(problem.jobs)))
    for module in (annealing, uncompiled):
        monkeypatch.setattr(module, "MOVES_PER_JOB", 4)
        plans.append(shortened(problem, start, 110, seed, module))
    assert plans[0] == plans[1] != start
