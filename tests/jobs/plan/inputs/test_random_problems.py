"""Every problem gets a plan that the checker accepts, or a refusal in one line."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.plan.inputs.planning import plan
from slipway.jobs.plan.search.check import check
from slipway.jobs.plan.search.model import Mode, PlanJob, Pool
from slipway.jobs.plan.search.refusals import CannotPlan


def random_pools(dice: random.Random) -> list[Pool]:
    """Build one to three pools, perhaps of the same type or of one that no job runs on."""
    return [
        Pool(
            type=dice.choice(["a", "b", f"c{place}"]),
            nodes=dice.choice([1, 1, 2, 3, 5]),
            devices_per_node=dice.choice([1, 2, 3, 8]),
            price_per_hour=dice.choice([0.0, 0.5, 98.32]),
            is_spot=dice.random() < 0.2,
            interruptions_per_hour=0.05,
            rework_seconds=60,
            spans_nodes=dice.random() < 0.8,
        )
        for place in range(dice.choice([1, 1, 2, 3]))
    ]


def random_jobs(dice: random.Random, pools: list[Pool]) -> list[PlanJob]:
    """Build jobs from a second to thirty years, with gangs, waits, deadlines and priorities."""
    found, spread = [], dice.choice([(0, 9), (3, 3), (0, 0.6), (2, 5)])
    for place in range(dice.choice([1, 2, 5, 9, 16])):
        work, modes = 10 ** dice.uniform(*spread), []
        for pool in pools if dice.random() < 0.6 else [dice.choice(pools)]:
            node = pool.devices_per_node
            for count in {1, dice.randint(1, node), node * dice.randint(1, pool.nodes)}:
                seconds = math.ceil(work / count ** dice.choice([1.0, 0.8, 0.0]))
                modes.append(Mode(technique="ddp", type=pool.type, devices=count, seconds=seconds))
        waits = (f"j{dice.randrange(place)}",) if place and dice.random() < 0.15 else ()
        late = int(work * dice.choice([1, 5, 50])) + 1 if dice.random() < 0.1 else None
        job = PlanJob(name=f"j{place}", modes=tuple(modes), depends_on=waits, deadline=late)
        found.append(replace(job, priority=dice.choice([0, 0, -5, 9])))
    return found


def random_goal(dice: random.Random, jobs: list[PlanJob], pools: list[Pool]) -> dict[str, Any]:
    goal: dict[str, Any] = {
        "objective": dice.choice(["makespan", "makespan", "cost"]),
        "billing": dice.choice(["device", "device", "node"]),
        "iterations": dice.choice([0, 2, 6]),
        "target_gap": 0.0,
    }
    if dice.random() < 0.4:
        first = plan(jobs, pools, iterations=0)
        goal["deadline"] = max(1, int(first.makespan * dice.choice([0.9, 1, 2])))
        goal["budget"] = first.dollars * dice.choice([0.9, 1, 5])
    return goal


@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_right_or_refused(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    planned = 0
    for turn in range(8):
        dice = random.Random(100 * seed + turn)  # noqa: S311 - no secret
        pools = random_pools(dice)
        jobs = random_jobs(dice, pools)
        try:
            found = plan(jobs, pools, **random_goal(dice, jobs, pools))
        except CannotPlan as refused:
            said = refused.message
        else:
            said, planned = "", planned + 1
            check(found)
        assert "\n" not in said
    assert planned > 1
    assert caplog.text == "", "no search failed, and none was wrong"
