"""The most that a lane of a pool can earn: a knapsack of time, in which each job runs once, in one option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipway.jobs.plan.search.bounds.table import Flags, Numbers, Whole
from slipway.jobs.plan.search.knapsack.filling import fill

Pattern = tuple[tuple[int, int], ...]  # (job, its option's place), by job


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneKnapsack:
    """Holds which options jobs have in one pool, and the units of time that each option takes."""

    fitting: Flags
    lengths: Whole
    units: int

    def fill(self, earned: Numbers, jobs: Sequence[int]) -> Filled:
        """Earn as much as possible with these jobs, if a lane earns so much by each option."""
        rows = np.array(jobs, dtype=np.int64)
        is_worth_it = self.fitting[rows] & (earned[rows] > 0)
        most = np.empty((len(jobs) + 1, self.units + 1))
        first = np.concatenate([[0], np.cumsum(is_worth_it.sum(axis=1))])
        fill(most, first, self.lengths[rows][is_worth_it], earned[rows][is_worth_it])
        return Filled(knapsack=self, earned=earned, jobs=jobs, most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Knows what can be earned by any time, and with which jobs."""

    knapsack: LaneKnapsack
    earned: Numbers
    jobs: Sequence[int]
    most: Numbers

    @property
    def by_time(self) -> Numbers:
        most: Numbers = self.most[-1]
        return most

    def pattern(self) -> Pattern:
        """Walk back to the jobs that earn the most in all of the time."""
        units, found = self.knapsack.units, []
        for place in range(len(self.jobs) - 1, -1, -1):
            if self.most[place + 1, units] == self.most[place, units]:
                continue
            option, units = self._taken(place, units)
            found.append((self.jobs[place], option))
        return tuple(sorted(found))

    def _taken(self, place: int, units: int) -> tuple[int, int]:
        """Find the option that earned what there is by then, and the time that was left before it."""
        job, before = self.jobs[place], self.most[place]
        for option in np.flatnonzero(self.knapsack.fitting[job]).tolist():
            left = units - int(self.knapsack.lengths[job, option])
            if left >= 0 and before[left] + self.earned[job, option] == self.most[place + 1, units]:
                return option, left
        raise AssertionError("what was earned, one option earned")
