"""Small problems for tests of the planner, of its searches and of what runs a plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from slipway.jobs.plan.search.list_schedule import Slot, list_schedule
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
    """Cut 8 devices x 1000 s into pieces, and let each piece be longer and slimmer at a loss."""
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
