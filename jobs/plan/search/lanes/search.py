"""Search for a plan by lanes, again and again, each time a little tighter."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from slipway.jobs.plan.search.bounds.prove import least_makespan
from slipway.jobs.plan.search.bounds.table import OptionTable
from slipway.jobs.plan.search.lanes.attempt import Attempts, LanePlan, LaneTrial
from slipway.jobs.plan.search.lanes.board import Lane, Menu, Worths
from slipway.jobs.plan.search.lanes.generation import Effort
from slipway.jobs.plan.search.list_schedule import Slot, score_of
from slipway.jobs.plan.search.model import Objective
from slipway.jobs.plan.search.options import PlanProblem

LEAST_WORTH = 1e-3  # the least worth of a pool's devices; the average is 1
FRUITLESS = 400  # attempts in vain after which the search ends
QUICK = Effort(
    room=400, lanes_per_kind=3, gap=0.01, rounds=60, window=80, refill=0.5, step=0.15, dive_rounds=1
)
THOROUGH = Effort()
EARLY = (0.0006, 0.0006, 0.003, 0.01)  # as shares of the deadline: lanes end so much before it
MOST_SPARED = 0.2  # share of the devices
WASTED = 0.05  # the cost of a wasted device-second, as a share of its price: it is not billed
FIRST_STEP = 0.03  # the share by which lanes within a budget are shortened at first
FIRST_SHORTER = 0.99  # length of lanes in the first thorough attempt, relative to the quick one
ENDED = 1.001  # relative to the horizon: a schedule that ends by then has all its lanes on nodes


class Tightening:
    """Chooses the length of lanes in the next attempt from what earlier ones needed."""

    def __init__(self, least: float, best: float, chance: random.Random) -> None:
        self._least, self._best = least, best
        self._horizon = least * 1.02
        self._step = 0.01
        self._shorter = FIRST_SHORTER
        self._chance = chance

    @property
    def is_done(self) -> bool:
        return self._best <= self._least

    def trial(self, effort: Effort) -> LaneTrial:
        return LaneTrial(horizon=self._horizon, effort=effort)

    def learn(self, plan: LanePlan, score: tuple[float, ...]) -> None:
        """Shorten the lanes after a success; lengthen them if there were too many of them."""
        makespan = max(slot.end for slot in plan.slots)
        self._best = min(self._best, makespan)
        longer = self._horizon * plan.need**0.9 * 1.0003 * self._shorter
        self._shorter = 1.0
        if makespan <= self._horizon * ENDED:
            self._step = min(0.01, self._step * 1.5)
            self._horizon = min(self._best * (1 - self._step), longer)
        elif plan.need > 1 and longer < self._best * 0.9995:
            self._horizon = longer
        else:
            self._step = max(0.0005, self._step * 0.8)
            self._horizon = self._best * (1 - self._step * self._chance.uniform(0.5, 1.5))


class FirstSaving:
    """Chooses how many devices the next attempt leaves free, so that the rounded plan meets the deadline."""

    is_done = False

    def __init__(self, deadline: float, chance: random.Random) -> None:
        self._deadline = deadline
        self._spare = 0.0
        self._chance = chance

    def trial(self, effort: Effort) -> LaneTrial:
        return LaneTrial(
            horizon=self._deadline * (1 - self._chance.choice(EARLY)),
            spare=self._spare * self._chance.uniform(0.5, 1.5),
            effort=effort,
        )

    def learn(self, plan: LanePlan, score: tuple[float, ...]) -> None:
        missed = score[0] > 0
        self._spare = min(MOST_SPARED, self._spare + 0.005) if missed else self._spare * 0.7


class WithinBudget:
    """Chooses the length of the cheapest lanes in the next attempt: shorter ones cost more."""

    def __init__(self, least: float, best: float, is_within: bool, chance: random.Random) -> None:
        self._least, self._best, self._is_within = least, best, is_within
        self._horizon = best
        self._step, self._spare = FIRST_STEP, 0.0
        self._chance = chance

    @property
    def is_done(self) -> bool:
        return self._is_within and self._best <= self._least

    def trial(self, effort: Effort) -> LaneTrial:
        step = self._step * self._chance.uniform(0.5, 1.5)
        self._horizon = max(self._least, self._best * (1 - step if self._is_within else 1 + step))
        return LaneTrial(
            horizon=self._horizon,
            spare=self._spare * self._chance.uniform(0.5, 1.5),
            effort=effort,
        )

    def learn(self, plan: LanePlan, score: tuple[float, ...]) -> None:
        is_late = max(slot.end for slot in plan.slots) > self._horizon * ENDED
        self._spare = min(MOST_SPARED, self._spare + 0.005) if is_late else self._spare * 0.7
        if not any(score[:2]) and not (self._is_within and score[2] >= self._best):
            self._best, self._is_within = score[2], True
            self._step = min(FIRST_STEP, self._step * 1.5)
        elif self._is_within:
            self._step = max(0.0005, self._step * 0.8)
        else:
            self._best *= 1 + self._step


def improve(
    problem: PlanProblem,
    *,
    seed: int,
    keep_going: Callable[[], bool],
    found: Callable[[Sequence[Slot]], None],
    start: Sequence[Slot] | None = None,
) -> None:
    """Call `found` with each better schedule, until no time is left or nothing can be gained."""
    if not problem.jobs:
        return
    chance = random.Random(seed)  # noqa: S311  # no secret
    menu = Menu(problem)
    chooser, worths = _begin(problem, menu, start, chance)
    attempts = Attempts(problem, menu, worths, keep_going)
    best = score_of(problem, start) if start else (float("inf"),)
    lanes: list[Lane] = []
    effort, fruitless = QUICK, 0
    while keep_going() and not chooser.is_done and fruitless < FRUITLESS:
        plan = attempts.make(chooser.trial(effort), lanes, chance)
        if plan is None:
            return
        effort, lanes, fruitless = THOROUGH, plan.lanes, fruitless + 1
        score = score_of(problem, plan.slots)
        if score < best:
            best, fruitless = score, 0
            found(plan.slots)
        chooser.learn(plan, score)


def _begin(
    problem: PlanProblem, menu: Menu, start: Sequence[Slot] | None, chance: random.Random
) -> tuple[Tightening | FirstSaving | WithinBudget, Worths]:
    prices = np.array([pool.price_per_hour / pool.devices_per_node / 3600 for pool in problem.pools])
    dollars = Worths(jobs=menu.dollars, pools=prices * WASTED, are_dollars=True)
    if problem.goal.objective is Objective.COST:
        longest = float(menu.seconds.max(axis=0).sum())
        deadline = longest if problem.goal.deadline is None else float(problem.goal.deadline)
        return FirstSaving(min(longest, deadline), chance), dollars
    least, found = least_makespan(OptionTable(problem))
    if found.dollar and start:  # the budget costs time
        *missed, best = score_of(problem, start)
        return WithinBudget(least, best, not any(missed), chance), dollars
    worth = np.maximum(found.devices * menu.capacity.sum(), LEAST_WORTH)
    areas = menu.seconds * menu.devices[:, None] * worth[menu.pools][:, None]
    best = max((slot.end for slot in start or ()), default=float("inf"))
    return Tightening(least, best, chance), Worths(jobs=areas, pools=worth)
