"""Ask what worths prove, and learn from the answer: the loop of every proof by device patterns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from slipway.jobs.plan.search.bounds.knapsack import Filled, LaneKnapsack, Pattern
from slipway.jobs.plan.search.bounds.table import Numbers, OptionTable
from slipway.jobs.plan.search.bounds.worths import Lanes, WorthProgram

UNITS = 2000  # of time, until the horizon
CLOSE = 1e-9  # sums of floating-point numbers differ by less
SMOOTHING = 0.7  # the share of the best worths so far in those that are tried
LEAST_SMOOTHING = 0.01
NEAR = 2e-4  # as a share: worths so near to the best ones are good enough
JOBS_OF_A_SAMPLE = 60
SAMPLES = (6, 100)  # at least and at most, and one for every ten jobs

KeepGoing = Callable[[], bool]
Patterns = dict[tuple[int, Pattern], None]  # with their pools, in the order in which they were found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Holds worths and what all lanes earn by them, in any time up to the horizon."""

    worths: Numbers
    by_time: Numbers
    has_news: bool  # a pattern that nobody had thought of


class WorthSearch:
    """Looks for worths that prove most of plans that end by one horizon."""

    def __init__(self, table: OptionTable, lanes: Lanes, horizon: int, known: Patterns) -> None:
        self._lanes, self._known = lanes, known
        self.horizon, self.units = horizon, min(horizon, UNITS)
        self._dice = random.Random(0)  # noqa: S311 - no secret
        self._fitting = table.fitting(horizon)
        self._lengths = np.minimum(table.seconds, horizon) * self.units // horizon
        self._program = WorthProgram(table, lanes, self._fitting)
        self._knapsacks = [
            LaneKnapsack(
                fitting=self._fitting & (table.pool == place), lengths=self._lengths, units=self.units
            )
            for place in range(len(lanes.of_pools))
        ]
        self._rows = {(place, pattern) for place, pattern in known if self._is_possible(pattern)}
        for place, pattern in known:
            if (place, pattern) in self._rows:
                self._program.add(place, pattern)

    def tries(
        self, worths: Numbers, value: Callable[[Tried], float], keep_going: KeepGoing
    ) -> Iterator[tuple[Tried, float]]:
        """Yield each try and the most that one can hope for, until there is nothing to learn."""
        smoothing, hope = SMOOTHING, np.inf
        best = tried = self._try(worths)
        yield tried, hope
        while keep_going() and smoothing > LEAST_SMOOTHING:
            asked, hope = self._program.solve()
            tried = self._try(smoothing * best.worths + (1 - smoothing) * asked)
            if value(tried) > value(best):
                best = tried
            yield tried, hope
            if not tried.has_news:
                smoothing /= 2

    def seconds_after(self, units: int) -> int:
        """Return the first makespan that has more units of time."""
        return self.horizon + 1 if units >= self.units else -(-(units + 1) * self.horizon // self.units)

    def _try(self, worths: Numbers) -> Tried:
        by_time = np.zeros(self.units + 1)
        earned = self._lanes.earned(worths)
        jobs = np.flatnonzero((earned > CLOSE * earned.max(initial=0)).any(axis=1)).tolist()
        known = len(self._rows)
        for place, knapsack in enumerate(self._knapsacks):
            filled = knapsack.fill(earned, jobs)
            by_time += self._lanes.of_pools[place] * filled.by_time
            self._learn(place, filled)
        return Tried(worths=worths, by_time=by_time, has_news=len(self._rows) > known)

    def _learn(self, place: int, filled: Filled) -> None:
        """Add the best pattern, and more out of samples of the jobs that those before have not taken."""
        least, most = SAMPLES
        left = list(filled.jobs)
        for _ in range(min(max(least, len(left) // 10), most)):
            pattern = filled.pattern()
            if not pattern:
                break
            if (place, pattern) not in self._rows:
                self._rows.add((place, pattern))
                self._known[place, pattern] = None
                self._program.add(place, pattern)
            taken = {job for job, _ in pattern}
            left = [job for job in left if job not in taken]
            sample = sorted(self._dice.sample(left, min(len(left), JOBS_OF_A_SAMPLE)))
            filled = filled.knapsack.fill(filled.earned, sample)

    def _is_possible(self, pattern: Pattern) -> bool:
        jobs, options = (np.array(each) for each in zip(*pattern, strict=True))
        length = self._lengths[jobs, options].sum()
        return bool(self._fitting[jobs, options].all() and length <= self.units)
