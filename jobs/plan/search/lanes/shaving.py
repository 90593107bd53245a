"""Shortens lanes that stand on nodes: moves and swaps jobs until none is longer than asked.

A program of lanes leaves each lane a little short of its end, and sometimes a job over. Swaps bring what is
left of many lanes together, until there is room. Moves are the best of all at each step, good or bad, and a
job that has moved stays for a while: a tabu search (Glover, 1989).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from slipway.jobs.plan.search.lanes.lane import Floats, Integers, Menu

NOT_THERE = 2**40  # seconds of a job on a lane where it does not run
STEPS = 1000  # for one wish at most, and no more than there are jobs
REST = (5, 25)  # steps for which a job stays that has moved
FIRST, LAST = 0.01, 2e-4  # how much shorter it wants the longest lane to be: more after a success


class Shaving:
    """Knows which lane each job is on, and how long each lane is."""

    def __init__(self, menu: Menu, kinds: Sequence[int], lane_of: Integers) -> None:
        """Begin with jobs on lanes of these kinds; a job on none goes where the lane is shortest then."""
        by_kind = np.where(menu.seconds > 0, menu.seconds, NOT_THERE)
        self._seconds: Integers = by_kind[np.array(kinds, dtype=np.int64)]  # by lane and job
        self._of_job: Integers = np.ascontiguousarray(self._seconds.T)
        self.lane_of = lane_of.copy()
        self._loads = self._load()
        missing = np.flatnonzero(self.lane_of < 0)
        for job in missing[np.argsort(-self._of_job[missing].min(axis=1), kind="stable")]:
            lane = int((self._loads + self._of_job[job]).argmin())
            self.lane_of[job] = lane
            self._loads[lane] += self._of_job[job, lane]

    @property
    def longest(self) -> int:
        return int(self._loads.max())

    def shorten(self, chance: random.Random, keep_going: Callable[[], bool]) -> Integers:
        """Return the lane of each job in the shortest plan that was found."""
        best, longest = self.lane_of.copy(), self.longest
        shorter = FIRST
        while shorter > LAST and keep_going():
            if self._reach(longest * (1 - shorter), chance, keep_going):
                best, longest = self.lane_of.copy(), self.longest
                shorter *= 1.5
            else:
                self._go_back(best)
                shorter /= 2
        return best

    def _reach(self, limit: float, chance: random.Random, keep_going: Callable[[], bool]) -> bool:
        stays = np.zeros(len(self.lane_of), dtype=np.int64)  # until which step a job stays
        for step in range(min(STEPS, len(self.lane_of))):
            if self.longest <= limit:
                return True
            if not keep_going():
                break
            self._step(limit, step, stays, chance)
        return False

    def _go_back(self, lane_of: Integers) -> None:
        self.lane_of = lane_of.copy()
        self._loads = self._load()

    def _step(self, limit: float, step: int, stays: Integers, chance: random.Random) -> None:
        long = np.flatnonzero(self._loads > limit)
        lane = int(long[chance.randrange(len(long))])
        jobs = np.flatnonzero((self.lane_of == lane) & (stays <= step))
        if not len(jobs):
            jobs = np.flatnonzero(self.lane_of == lane)
        moves, swaps = self._moves(lane, jobs, limit), self._swaps(lane, jobs, limit)
        swaps[:, stays > step] = np.inf
        until = step + chance.randint(*REST)
        if moves.min() <= swaps.min():
            job, to = _least(moves, chance)
            self._put(int(jobs[job]), to)
        else:
            job, other = _least(swaps, chance)
            to = self.lane_of[other]
            self._put(int(jobs[job]), int(to))
            self._put(other, lane)
            stays[other] = until
        stays[jobs[job]] = until

    def _load(self) -> Integers:
        placed = np.flatnonzero(self.lane_of >= 0)
        lanes = self.lane_of[placed]
        seconds = self._seconds[lanes, placed]
        return np.bincount(lanes, weights=seconds, minlength=len(self._seconds)).astype(np.int64)

    def _put(self, job: int, lane: int) -> None:
        self._loads[self.lane_of[job]] -= self._of_job[job, self.lane_of[job]]
        self._loads[lane] += self._of_job[job, lane]
        self.lane_of[job] = lane

    def _moves(self, lane: int, jobs: Integers, limit: float) -> Floats:
        """Return, by job of the lane and other lane, how much worse a move makes the plan."""
        freed = self._loads[lane] - self._of_job[jobs, lane]
        there = _late(self._loads + self._of_job[jobs], limit) - _late(self._loads, limit)
        found: Floats = _late(freed, limit)[:, None] + there - _late(self._loads[lane], limit)
        found[:, lane] = np.inf
        return found

    def _swaps(self, lane: int, jobs: Integers, limit: float) -> Floats:
        """Return, by job of the lane and any other job, how much worse their swap makes the plan."""
        lanes = self.lane_of
        loads = self._loads[lanes]
        own = self._of_job[np.arange(len(lanes)), lanes]
        freed = self._loads[lane] - self._of_job[jobs, lane]
        here = _late(freed[:, None] + self._seconds[lane], limit)
        there = _late(loads - own + self._of_job[jobs][:, lanes], limit)
        found: Floats = here + there - _late(loads, limit) - _late(self._loads[lane], limit)
        found[:, lanes == lane] = np.inf
        return found


def _least(costs: Floats, chance: random.Random) -> tuple[int, int]:
    """Choose at random among the places of the least cost."""
    rows, columns = np.nonzero(costs == costs.min())
    place = chance.randrange(len(rows))
    return int(rows[place]), int(columns[place])


def _late(loads: Integers, limit: float) -> Floats:
    found: Floats = np.maximum(loads - limit, 0.0)
    return found
