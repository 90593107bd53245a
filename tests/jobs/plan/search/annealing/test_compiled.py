"""The compiled list schedule is the plain one: the same ends for any order and any options."""

from __future__ import annotations

import random

import numpy as np
import pytest

from slipway.jobs.plan.search.list_schedule import list_schedule
from slipway.jobs.plan.search.model import Billing, Goal, Mode, Objective, PlanJob, Pool
from slipway.jobs.plan.search.options import PlanProblem, new_problem

pytest.importorskip("numba", reason="needs numba: the extra fast")
from slipway.jobs.plan.search.annealing.compiled import desk_of, tables_of, worth

POOLS = (
    Pool(type="p4d", nodes=3, devices_per_node=8, price_per_hour=32.0),
    Pool(type="g5", nodes=2, devices_per_node=4, price_per_hour=5.0),
)


def random_problem(dice: random.Random, billing: Billing = Billing.DEVICE) -> PlanProblem:
    jobs = []
    for place in range(12):
        modes = [
            Mode(technique="ddp", type=pool.type, devices=devices, seconds=dice.randint(900, 1000) // devices)
            for pool in POOLS
            for devices in dice.sample([1, 2, 3, pool.devices_per_node, 2 * pool.devices_per_node], 3)
        ]
        after = tuple(f"job{before}" for before in range(place) if dice.random() < 0.1)
        jobs.append(PlanJob(name=f"job{place}", modes=tuple(modes), depends_on=after))
    return new_problem(jobs, POOLS, Goal(billing=billing))


def test_every_job_ends_when_the_plain_list_schedule_says() -> None:
    dice = random.Random(7)  # noqa: S311 - the same problems each time
    for _ in range(20):
        problem = random_problem(dice)
        tables = tables_of(problem, 1000, 1)
        desk = desk_of(tables)
        order = dice.sample(range(12), 12)
        choice = [dice.randrange(len(options)) for options in problem.options]
        worth(tables, desk, np.array(order), np.array(choice), np.array([3, 2]), np.inf)
        assert desk.ends.tolist() == [slot.end for slot in list_schedule(problem, choice, order)]


def test_a_node_is_billed_from_its_first_start_to_its_last_end() -> None:
    pool = Pool(type="p4d", nodes=2, devices_per_node=8, price_per_hour=36.0)
    modes = [Mode(technique="ddp", type="p4d", devices=devices, seconds=3600) for devices in (5, 5, 3)]
    jobs = [PlanJob(name=f"job{place}", modes=(mode,)) for place, mode in enumerate(modes)]
    problem = new_problem(jobs, [pool], Goal(objective=Objective.COST, billing=Billing.NODE))
    tables = tables_of(problem, 1, 1)
    values = [
        worth(tables, desk_of(tables), np.arange(3), np.zeros(3, dtype=np.int64), np.array([opened]), np.inf)
        for opened in (2, 1)
    ]
    assert values == [72.0, 72.0]
