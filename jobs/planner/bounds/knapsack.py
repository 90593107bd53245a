"""What one lane of a pool can earn at most: a knapsack of time, in which each job runs once, in one option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipway.jobs.planner.bounds.table import Numbers

Ways = tuple[tuple[int, float, int], ...]  # of one job: units of time, lanes that it takes, the option's place
Pattern = tuple[tuple[int, int], ...]  # (job, its option's place), by job


@dataclass(frozen=True, slots=True, kw_only=True)
class Knapsack:
    """Holds each job's ways to run in one pool, in units of time."""

    ways: tuple[Ways, ...]
    units: int

    def fill(self, worth: Numbers, jobs: Sequence[int]) -> Filled:
        """Earn as much as possible with these jobs; one that takes k lanes earns a k-th of its worth in each."""
        most = np.zeros((len(jobs) + 1, self.units + 1))
        for place, job in enumerate(jobs):
            before, after = most[place], most[place + 1]
            after[:] = before
            for units, lanes, _ in self.ways[job]:
                earned = before[: self.units + 1 - units] + worth[job] / lanes
                np.maximum(after[units:], earned, out=after[units:])
        return Filled(knapsack=self, worth=worth, jobs=jobs, most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Knows what can be earned by any time, and with which jobs."""

    knapsack: Knapsack
    worth: Numbers
    jobs: Sequence[int]
    most: Numbers

    @property
    def by_time(self) -> Numbers:
        earned: Numbers = self.most[-1]
        return earned

    def pattern(self) -> Pattern:
        """Walk back to the jobs that earn the most in all of the time."""
        units, found = self.knapsack.units, []
        for place in range(len(self.jobs) - 1, -1, -1):
            job, before = self.jobs[place], self.most[place]
            if self.most[place + 1, units] == before[units]:
                continue
            for length, lanes, option in self.knapsack.ways[job]:
                earned = length <= units and before[units - length] + self.worth[job] / lanes
                if earned == self.most[place + 1, units]:
                    found.append((job, option))
                    units -= length
                    break
        return tuple(sorted(found))
