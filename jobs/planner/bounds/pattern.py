"""Device patterns: each device runs jobs one after the other, and they seldom fill the time to the brim.

Give each job a worth. A job on g devices earns a g-th of its worth on each of them. If all devices together,
each with the jobs that earn most in time T, earn less than all jobs are worth, no plan ends by T. A linear
program finds the worths; it gets a row for each pattern of jobs that a knapsack shows it has not thought of.
Any worths prove something, so this can be stopped at any moment. Durations are rounded down to units of time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from slipway.jobs.planner.bounds.knapsack import Filled, Knapsack, Pattern, Ways
from slipway.jobs.planner.bounds.table import Flags, Numbers, OptionTable
from slipway.jobs.planner.bounds.worths import Lanes, WorthProgram

UNITS = 2000  # of time, in the makespan that is tried
FIRST_STEP = 1.02  # of the bound so far: the makespan that is tried
LAST_STEP = 5e-4  # as a share of it: smaller steps are not worth the time
CLOSE = 1e-9  # sums of floating-point numbers differ by less
SMOOTHING = 0.7  # the share of the best worths so far in those that are tried
LEAST_SMOOTHING = 0.01
DISJOINT_PATTERNS = 6  # found after each other, without the jobs of those before
JOBS_OF_A_SAMPLE = 60
NEAR = 2e-4  # as a share: worths so near to the best ones are good enough

KeepGoing = Callable[[], bool]


class PatternSearch:
    """Raises a bound of the makespan; what it learns at one makespan serves at the next."""

    def __init__(self, table: OptionTable, lanes: Lanes, worths: Numbers) -> None:
        self.table, self.lanes = table, lanes
        self.worths = worths  # the best so far
        self.patterns: dict[tuple[int, Pattern], None] = {}

    def bounds(self, known: int, keep_going: KeepGoing) -> Iterator[int]:
        """Yield higher and higher bounds, all above the known one."""
        best, beyond = known, 0
        while keep_going() and not 0 < beyond - best <= max(1, best * LAST_STEP):
            makespan = (best + beyond) // 2 if beyond else max(best, int(best * FIRST_STEP))
            attempt = _Attempt(self, makespan)
            for found in attempt.bounds(keep_going):
                if found > best:
                    best = found
                    yield best
            if best <= makespan:
                beyond = makespan


class _Attempt:
    """Tries to rule out one makespan."""

    def __init__(self, search: PatternSearch, makespan: int) -> None:
        self._search, self._makespan = search, makespan
        self._units = min(makespan, UNITS)
        self._dice = random.Random(0)
        table = search.table
        fitting = table.fitting(makespan)
        self._lengths = np.minimum(table.seconds, makespan) * self._units // makespan
        self._knapsacks = [
            Knapsack(ways=self._ways(fitting & (table.pool == place)), units=self._units)
            for place in range(len(table.capacity))
        ]
        self._program = WorthProgram(search.lanes, table.pool, fitting)
        self._rows = {key for key in search.patterns if self._is_pattern(fitting, key[1])}
        for place, pattern in search.patterns:
            if (place, pattern) in self._rows:
                self._program.add(place, pattern)

    def bounds(self, keep_going: KeepGoing) -> Iterator[int]:
        """Yield what each try proves, until this makespan is ruled out or cannot be."""
        smoothing, most = SMOOTHING, 0.0
        worths, limit = self._search.worths, np.inf
        while keep_going():
            has_news, proven, earned = self._try(worths)
            if worths.sum() > most * earned:
                most, self._search.worths = worths.sum() / earned, worths / earned
            yield proven
            if proven > self._makespan or limit < max(1, most) * (1 + NEAR):
                break
            if not has_news:
                smoothing /= 2
            if smoothing < LEAST_SMOOTHING:
                break
            best, limit = self._program.solve()
            if limit <= 1:
                break
            worths = smoothing * self._search.worths + (1 - smoothing) * best

    def _try(self, worths: Numbers) -> tuple[bool, int, float]:
        """Return whether these worths showed a new pattern, the bound they prove, and what all lanes earn."""
        earned = np.zeros(self._units + 1)
        has_news = False
        useful = [job for job in range(len(worths)) if worths[job] > CLOSE / len(worths)]
        for place, knapsack in enumerate(self._knapsacks):
            filled = knapsack.fill(worths, useful)
            earned += self._search.lanes.of_pools[place] * filled.by_time
            has_news |= self._learn(place, filled)
        ruled_out = np.flatnonzero(worths.sum() > earned * (1 + CLOSE))
        units = int(ruled_out[-1]) if len(ruled_out) else -1
        return has_news, self._seconds_after(units), float(earned[-1])

    def _seconds_after(self, units: int) -> int:
        """Return the least makespan that has more units of time."""
        return -(-(units + 1) * self._makespan // self._units) if units < self._units else self._makespan + 1

    def _learn(self, place: int, filled: Filled) -> bool:
        """Add the best pattern, and a few more out of samples of the jobs that it has not."""
        has_news = False
        left = list(filled.jobs)
        for _ in range(DISJOINT_PATTERNS):
            pattern = filled.pattern()
            if not pattern:
                break
            has_news |= self._add(place, pattern)
            taken = {job for job, _ in pattern}
            left = [job for job in left if job not in taken]
            sample = sorted(self._dice.sample(left, min(len(left), JOBS_OF_A_SAMPLE)))
            filled = filled.knapsack.fill(filled.worth, sample)
        return has_news

    def _add(self, place: int, pattern: Pattern) -> bool:
        if (place, pattern) in self._rows:
            return False
        self._rows.add((place, pattern))
        self._search.patterns[place, pattern] = None
        self._program.add(place, pattern)
        return True

    def _ways(self, fitting: Flags) -> tuple[Ways, ...]:
        lanes = self._search.lanes.of_options
        return tuple(
            tuple(
                (int(self._lengths[job, option]), float(lanes[job, option]), int(option))
                for option in np.flatnonzero(row)
            )
            for job, row in enumerate(fitting)
        )

    def _is_pattern(self, fitting: Flags, pattern: Pattern) -> bool:
        jobs, options = (np.array(each) for each in zip(*pattern, strict=True))
        fits = fitting[jobs, options].all() and self._lengths[jobs, options].sum() <= self._units
        return bool(fits)
