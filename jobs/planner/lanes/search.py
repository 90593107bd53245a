"""Searches a plan by lanes, again and again, each time a little tighter."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from slipway.jobs.planner.baselines import score_of
from slipway.jobs.planner.bounds.area import least_makespan
from slipway.jobs.planner.bounds.table import OptionTable
from slipway.jobs.planner.lanes.attempt import Attempts, LaneTrial
from slipway.jobs.planner.lanes.generation import Effort
from slipway.jobs.planner.lanes.lane import Lane, Menu
from slipway.jobs.planner.list_schedule import Slot
from slipway.jobs.planner.options import PlanProblem

LEAST_WORTH = 1e-3  # of a pool's devices, beside an average of one
FRUITLESS = 400  # attempts after which no more are made
SMALL = (0.0, 0.0, 0.0, 0.05, 0.1, 0.2)  # shares of all area that are kept for the gaps
QUICK = Effort(
    room=400, lanes_per_kind=3, gap=0.01, rounds=60, window=80, refill=0.5, step=0.15, dive_rounds=1
)
THOROUGH = Effort()
ENDED = 1.001  # of the horizon: a schedule that ends by then has all its lanes on nodes


class Tightening:
    """Chooses how long lanes are in the next attempt, from what those before it needed."""

    def __init__(self, least: float, best: float, chance: random.Random) -> None:
        self.best = best
        self.horizon = least * 1.02
        self._step = 0.01
        self._chance = chance

    def learn(self, need: float, makespan: int) -> None:
        """Shorten the lanes after a success; lengthen them if there were too many of them."""
        self.best = min(self.best, makespan)
        longer = self.horizon * need**0.9 * 1.0003
        if makespan <= self.horizon * ENDED:
            self._step = min(0.01, self._step * 1.5)
            self.horizon = min(self.best * (1 - self._step), longer)
        elif need > 1 and longer < self.best * 0.9995:
            self.horizon = longer
        else:
            self._step = max(0.0005, self._step * 0.8)
            self.horizon = self.best * (1 - self._step * self._chance.uniform(0.5, 1.5))


def improve(
    problem: PlanProblem,
    *,
    seed: int,
    keep_going: Callable[[], bool],
    found: Callable[[Sequence[Slot]], None],
    start: Sequence[Slot] | None = None,
) -> None:
    """Call `found` with each better schedule, until there is no time left or nothing to gain."""
    if not problem.jobs:
        return
    chance = random.Random(seed)  # noqa: S311  # no secret
    menu = Menu(problem)
    least, prices = least_makespan(OptionTable(problem))
    worth = np.maximum(prices.devices * menu.capacity.sum(), LEAST_WORTH)
    attempts = Attempts(problem, menu, worth, keep_going)
    tightening = Tightening(least, max((slot.end for slot in start or ()), default=float("inf")), chance)
    best = score_of(problem, start) if start else (float("inf"),)
    lanes: list[Lane] = []
    effort, fruitless = QUICK, 0
    while keep_going() and tightening.best > least and fruitless < FRUITLESS:
        trial = LaneTrial(horizon=tightening.horizon, small=chance.choice(SMALL), effort=effort)
        plan = attempts.make(trial, lanes, chance)
        if plan is None:
            return
        effort, lanes, fruitless = THOROUGH, plan.lanes, fruitless + 1
        score = score_of(problem, plan.slots)
        if score < best:
            best, fruitless = score, 0
            found(plan.slots)
        tightening.learn(plan.need, max(slot.end for slot in plan.slots))
