"""Plans by lanes are valid, repeatable, and better than greedy ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from slipway.jobs.plan.search.first_plan import greedy
from slipway.jobs.plan.search.lanes.attempt import NOT_THERE, Attempts, LaneTrial, Shaving
from slipway.jobs.plan.search.lanes.board import Integers, Menu, Worths
from slipway.jobs.plan.search.lanes.search import QUICK, improve
from slipway.jobs.plan.search.list_schedule import Slot, score_of
from slipway.jobs.plan.search.model import Goal, Mode, Objective, PlanJob, Pool
from slipway.jobs.plan.search.options import PlanProblem, new_problem
from tests.jobs.plan.search.small import POOL, assert_valid, job, problem_of

NODE = 8


def asked(calls: int) -> Callable[[], bool]:
    """Return True this many times: a limit that does not depend on the clock."""
    left = itertools.count(calls, -1)
    return lambda: next(left) > 0


def random_job(name: str, chance: random.Random, counts: Sequence[int], types: Sequence[str]) -> PlanJob:
    area = chance.lognormvariate(10, 0.8)
    loss = chance.uniform(0.05, 0.3)
    modes = tuple(
        Mode(
            technique="ddp",
            type=each,
            devices=count,
            seconds=int(speed * area * count**loss / count),
        )
        for speed, each in enumerate(types, 1)
        for count in counts
    )
    return PlanJob(name=name, modes=modes)


def mixture(jobs: int, nodes: int, counts: Sequence[int] = range(1, NODE + 1), pools: int = 1) -> PlanProblem:
    chance = random.Random(7)  # noqa: S311  # no secret
    types = [f"type-{place}" for place in range(pools)]
    return new_problem(
        [random_job(f"job-{place}", chance, counts, types) for place in range(jobs)],
        [Pool(type=each, nodes=nodes, devices_per_node=NODE, price_per_hour=30.0) for each in types],
        Goal(),
    )


def plans_of(problem: PlanProblem, calls: int, seed: int = 0) -> list[list[Slot]]:
    plans: list[list[Slot]] = []
    improve(problem, seed=seed, keep_going=asked(calls), found=lambda slots: plans.append(list(slots)))
    return plans


def makespan(slots: Sequence[Slot]) -> int:
    return max(slot.end for slot in slots)


def test_every_plan_by_lanes_is_valid_and_better_than_the_one_before() -> None:
    problem = mixture(12, 1)
    plans = plans_of(problem, 400)
    for slots in plans:
        assert_valid(problem, slots)
    spans = [makespan(slots) for slots in plans]
    assert spans == sorted(set(spans), reverse=True)


def test_lanes_beat_the_greedy_plan_of_32_jobs_on_32_devices() -> None:
    problem = mixture(32, 4)
    best = plans_of(problem, 900)[-1]
    assert_valid(problem, best)
    assert makespan(best) < makespan(greedy(problem))


def test_one_seed_gives_the_same_plans_again() -> None:
    problem = mixture(12, 1)
    assert plans_of(problem, 300, seed=3) == plans_of(problem, 300, seed=3)


def test_gangs_of_whole_nodes_and_jobs_inside_of_them_share_a_pool() -> None:
    problem = mixture(24, 4, counts=(1, 2, 4, 8, 16, 32))
    plans = plans_of(problem, 400)
    for slots in plans:
        assert_valid(problem, slots)
    assert makespan(plans[-1]) < makespan(greedy(problem))


def test_jobs_are_shared_among_unlike_pools() -> None:
    problem = mixture(16, 1, counts=(1, 2, 4, 8), pools=2)
    best = plans_of(problem, 400)[-1]
    assert_valid(problem, best)
    assert {slot.option.pool for slot in best} == {0, 1}
    assert makespan(best) < makespan(greedy(problem))


def test_a_pool_that_no_job_can_use_costs_nothing() -> None:
    problem = mixture(20, 2)
    idle = Pool(type="idle", nodes=2, devices_per_node=NODE, price_per_hour=1.0)
    with_idle = new_problem(problem.jobs, [*problem.pools, idle], Goal())
    there, without = (plans_of(each, 200)[-1] for each in (with_idle, problem))
    assert max(slot.end for slot in there) <= 1.03 * max(slot.end for slot in without)


def test_lanes_are_never_shorter_than_the_longest_job() -> None:
    problem = problem_of(job("long", (1, 1000)), *(job(f"job{place}", (1, 500)) for place in range(14)))
    menu = Menu(problem)
    worths = Worths(jobs=menu.areas(1000), pools=np.ones(1))
    trial = LaneTrial(horizon=990, effort=QUICK)
    found = Attempts(problem, menu, worths, asked(100)).make(trial, [], random.Random(0))  # noqa: S311
    assert found
    assert max(slot.end for slot in found.slots) == 1000


def test_the_search_ends_by_itself_when_nothing_is_left_to_gain() -> None:
    plans: list[Sequence[Slot]] = []
    improve(problem_of(job("lone", (1, 50))), seed=0, keep_going=lambda: True, found=plans.append)
    assert [makespan(slots) for slots in plans] == [50]
    improve(problem_of(), seed=0, keep_going=lambda: True, found=plans.append)
    assert len(plans) == 1


def test_lanes_spend_less_than_the_greedy_plan_and_meet_the_deadline() -> None:
    problem = mixture(16, 1, counts=(1, 2, 4, 8), pools=2)
    deadline = int(1.1 * makespan(greedy(problem)))
    goal = Goal(objective=Objective.COST, deadline=deadline)
    dear = replace(problem.pools[0], price_per_hour=90.0)
    problem = new_problem(problem.jobs, [dear, problem.pools[1]], goal)
    best = plans_of(problem, 300)[-1]
    assert_valid(problem, best)
    assert makespan(best) <= deadline
    assert score_of(problem, best) < score_of(problem, greedy(problem))


def test_lanes_end_sooner_than_the_greedy_plan_within_a_budget() -> None:
    problem = mixture(32, 2, counts=(1, 2, 4, 8), pools=2)
    pools = [replace(problem.pools[0], price_per_hour=120.0), problem.pools[1]]
    dear = new_problem(problem.jobs, pools, Goal())
    cheapest = sum(min(option.dollars for option in options) for options in dear.options)
    within = replace(dear, goal=Goal(budget=1.2 * cheapest))
    start = greedy(within)
    plans: list[Sequence[Slot]] = []
    improve(within, seed=0, keep_going=asked(300), found=plans.append, start=start)
    assert_valid(within, plans[-1])
    assert score_of(within, plans[-1]) < score_of(within, start)


# Lanes that already have nodes become shorter: jobs change places until free room is in one piece.
SECONDS = (60, 50, 40, 30, 20)


def shaved(menu: Menu, kinds: list[int], lane_of: list[int], seed: int = 0) -> Integers:
    """Return how long each lane is in the end."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    found = Shaving(menu, kinds, np.array(lane_of)).shorten(dice, lambda: True)
    seconds = np.where(menu.seconds > 0, menu.seconds, NOT_THERE)[
        np.array(kinds)[found], np.arange(len(found))
    ]
    return np.bincount(found, weights=seconds, minlength=len(kinds)).astype(np.int64)


@pytest.mark.parametrize("lane_of", [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 1, -1], [-1] * 5])
@pytest.mark.parametrize("seed", range(3))
def test_jobs_are_shared_out_evenly_wherever_they_are_at_first(lane_of: list[int], seed: int) -> None:
    jobs = [job(f"job{place}", (1, seconds)) for place, seconds in enumerate(SECONDS)]
    menu = Menu(problem_of(*jobs, pool=replace(POOL, devices_per_node=2)))
    assert sorted(shaved(menu, [0, 0], lane_of, seed).tolist()) == [100, 100]


def test_a_job_goes_only_on_lanes_of_devices_that_it_has_a_mode_for() -> None:
    menu = Menu(problem_of(job("wide", (4, 100)), job("both", (1, 90), (4, 60)), job("slim", (1, 90))))
    assert shaved(menu, [0, 1], [1, 1, 0]).tolist() == [90, 160]


def test_without_time_the_lanes_stay_as_they_are() -> None:
    menu = Menu(problem_of(*[job(f"job{place}", (1, 10)) for place in range(4)]))
    lane_of = np.array([0, 0, 0, 1])
    dice = random.Random(0)  # noqa: S311 - no secret
    assert Shaving(menu, [0, 0], lane_of).shorten(dice, lambda: False).tolist() == [0, 0, 0, 1]
