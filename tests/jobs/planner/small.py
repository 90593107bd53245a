"""Small problems for tests of the planner's searches."""

from __future__ import annotations

from slipway.jobs.planner.model import Goal, Mode, PlanJob, Pool
from slipway.jobs.planner.options import PlanProblem, new_problem

POOL = Pool(type="p4d", nodes=1, devices_per_node=8, price_per_hour=36.0)


def job(name: str, *modes: tuple[int, int], deadline: int | None = None) -> PlanJob:
    ways = tuple(Mode(technique="ddp", type="p4d", devices=count, seconds=long) for count, long in modes)
    return PlanJob(name=name, modes=ways, deadline=deadline)


def cut_jobs() -> list[PlanJob]:
    """Cut 8 devices x 1000 s into pieces, and let each piece be longer and slimmer at a loss."""
    pieces = [(5, 300), (5, 500), (3, 450), (3, 350), (8, 200)]
    return [
        job(f"job{place}", (devices, seconds), (1, devices * seconds + 100))
        for place, (devices, seconds) in enumerate(pieces)
    ]


def problem_of(*jobs: PlanJob, pool: Pool = POOL, goal: Goal | None = None) -> PlanProblem:
    return new_problem(jobs, [pool], goal or Goal())
