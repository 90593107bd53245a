"""Lanes that are on nodes already get shorter: jobs change places until room comes together."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from slipway.jobs.plan.search.lanes.attempt import NOT_THERE, Shaving
from slipway.jobs.plan.search.lanes.board import Integers, Menu
from tests.jobs.plan.search.small import POOL, job, problem_of

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
