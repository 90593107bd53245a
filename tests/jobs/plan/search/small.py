"""Makes small problems for tests of the planner, its searches and its runner."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

from slipway.jobs.plan.search.check import check
from slipway.jobs.plan.search.list_schedule import Slot, as_plan, list_schedule
from slipway.jobs.plan.search.model import Goal, Mode, PlanJob, Pool
from slipway.jobs.plan.search.options import PlanProblem, new_problem

POOL = Pool(type="p4d", nodes=1, devices_per_node=8, price_per_hour=36.0)
TWO_NODES = Pool(type="p4d", nodes=2, devices_per_node=8, price_per_hour=36.0)


def job(
    name: str, *modes: tuple[int, int], after: tuple[str, ...] = (), deadline: int | None = None
) -> PlanJob:
    """Build a job of modes: devices and seconds."""
    ways = tuple(Mode(technique="ddp", type="p4d", devices=count, seconds=long) for count, long in modes)
    return PlanJob(name=name, modes=ways, depends_on=after, deadline=deadline)


def cut_jobs() -> list[PlanJob]:
    """Cut 8 devices x 1000 s into pieces; each may also run longer on fewer devices, at a loss."""
    pieces = [(5, 300), (5, 500), (3, 450), (3, 350), (8, 200)]
    return [
        job(f"job{place}", (devices, seconds), (1, devices * seconds + 100))
        for place, (devices, seconds) in enumerate(pieces)
    ]


def problem_of(*jobs: PlanJob, pool: Pool = POOL, goal: Goal | None = None) -> PlanProblem:
    return new_problem(jobs, [pool], goal or Goal())


def best_of_all(problem: PlanProblem) -> Sequence[Slot]:
    """Try every choice of options."""
    count = range(len(problem.jobs))
    choices = product(*(range(len(options)) for options in problem.options))
    found = (list_schedule(problem, choice, count) for choice in choices)
    return min(found, key=lambda slots: max(slot.end for slot in slots))


# Tiny problems from a seed, for properties that must hold for all.


def tiny_problem(seed: int, *, jobs: int = 4, pools: int = 1, goal: Goal | None = None) -> PlanProblem:
    """Build jobs that speed up unevenly; some take whole nodes, some wait for others."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    nodes = [
        Pool(
            type=f"t{at}",
            nodes=dice.randint(1, 2),
            devices_per_node=dice.choice([2, 3]),
            price_per_hour=at + 1,
        )
        for at in range(pools)
    ]
    return new_problem([_job(dice, place, nodes) for place in range(jobs)], nodes, goal or Goal())


def _job(dice: random.Random, place: int, pools: Sequence[Pool]) -> PlanJob:
    modes = []
    for pool in pools:
        work = dice.randint(2, 12)
        for count in {1, dice.randint(1, pool.devices_per_node), dice.choice([1, pool.devices])}:
            seconds = max(1, round(work / count ** dice.uniform(0.5, 1.1)))
            modes.append(Mode(technique="ddp", type=pool.type, devices=count, seconds=seconds))
    waits = place > 1 and dice.random() < 0.25
    return PlanJob(name=f"job{place}", modes=tuple(modes), depends_on=("job0",) if waits else ())


def assert_valid(problem: PlanProblem, slots: Sequence[Slot]) -> None:
    """Check a plan by the checker's rules, which share nothing with a search."""
    check(as_plan(problem, slots))
