"""Solve the linear program of worths: make jobs worth much, but let no pattern earn more than its lane."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from slipway.jobs.plan.search.bounds.table import (
    Flags,
    Numbers,
    OptionTable,
    Whole,
    add_row,
    new_program,
    solve,
)
from slipway.jobs.plan.search.knapsack.filling import fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Holds how many lanes each option takes, how many each pool has, and what a job pays for an option.

    A device is a lane. If no job pays, all lanes together are worth 1.
    """

    of_options: Numbers
    of_pools: Numbers
    payments: Numbers
    highest: Numbers  # the most that a lane of each pool may be worth

    def earned(self, worths: Numbers) -> Numbers:
        """Return what each option earns in each of its lanes."""
        earned: Numbers = (worths[:, None] - self.payments) / self.of_options
        return earned


def device_lanes(table: OptionTable) -> Lanes:
    """Let each device be a lane, for which no job pays."""
    return Lanes(
        of_options=table.devices,
        of_pools=table.capacity,
        payments=np.zeros_like(table.devices),
        highest=np.full(len(table.capacity), np.inf),
    )


class WorthProgram:
    """A program with a column for the worth of each job, and for that of a lane of each pool."""

    def __init__(self, table: OptionTable, lanes: Lanes, fitting: Flags) -> None:
        self._lanes = lanes
        self._jobs = len(fitting)
        self._patterns: list[Pattern] = []  # of the last rows
        self._pays = pays = bool(lanes.payments.any())
        costs = np.concatenate([-np.ones(self._jobs), lanes.of_pools * pays])
        uppers = np.concatenate([np.full(self._jobs, highspy.kHighsInf), lanes.highest])
        self._program = new_program(costs, uppers)
        if not pays:
            add_row(self._program, np.concatenate([np.zeros(self._jobs), lanes.of_pools]), 1.0, 1.0)
        for place in range(len(lanes.of_pools)):
            self._add_single_jobs(place, fitting & (table.pool == place))

    def add(self, place: int, pattern: Pattern) -> None:
        """Add a row: the pattern's jobs earn no more in a lane of the pool than the lane is worth."""
        jobs, options = (np.array(each) for each in zip(*pattern, strict=True))
        lanes = self._lanes.of_options[jobs, options]
        columns = np.append(jobs, self._jobs + place).astype(np.int32)
        paid = float((self._lanes.payments[jobs, options] / lanes).sum())
        self._program.addRow(-highspy.kHighsInf, paid, len(columns), columns, np.append(1 / lanes, -1.0))
        self._patterns.append(pattern)

    def solve(self) -> tuple[Numbers, float]:
        """Return the worths of the jobs, and the most by which they exceed the worths of all lanes."""
        answer = solve(self._program)
        assert answer is not None, "a job is worth no more than its lanes and what it pays"
        return answer[0][: self._jobs], -answer[1]

    def shares(self) -> Numbers:
        """Return how much of each option the jobs take in the patterns that limit their worths."""
        self.solve()  # patterns may have been added since
        found = np.zeros_like(self._lanes.of_options)
        used = np.abs(self._program.getSolution().row_dual)[-len(self._patterns) :]
        for share, pattern in zip(used, self._patterns, strict=True):
            for each in pattern:
                found[each] += share / self._lanes.of_options[each]
        return found

    def _add_single_jobs(self, place: int, fitting: Flags) -> None:
        fewest = np.where(fitting, self._lanes.of_options, np.inf).argmin(axis=1)
        for job, row in enumerate(fitting):
            for option in np.flatnonzero(row):
                if self._pays or option == fewest[job]:
                    self.add(place, ((job, int(option)),))


# Find the most that a lane of a pool can earn: a knapsack of time, with each job once, in one option.
Pattern = tuple[tuple[int, int], ...]  # (job, its option's place), by job


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneKnapsack:
    """Holds the options of jobs in one pool, and the units of time that each takes."""

    fitting: Flags
    lengths: Whole
    units: int

    def fill(self, earned: Numbers, jobs: Sequence[int]) -> Filled:
        """Earn as much as possible in a lane with these jobs; `earned` is by option."""
        rows = np.array(jobs, dtype=np.int64)
        is_worth_it = self.fitting[rows] & (earned[rows] > 0)
        most = np.empty((len(jobs) + 1, self.units + 1))
        first = np.concatenate([[0], np.cumsum(is_worth_it.sum(axis=1))])
        fill(most, first, self.lengths[rows][is_worth_it], earned[rows][is_worth_it])
        return Filled(knapsack=self, earned=earned, jobs=jobs, most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Holds what a lane can earn by each time, and with which jobs."""

    knapsack: LaneKnapsack
    earned: Numbers
    jobs: Sequence[int]
    most: Numbers

    @property
    def by_time(self) -> Numbers:
        most: Numbers = self.most[-1]
        return most

    def pattern(self) -> Pattern:
        """Return the jobs that earn the most in all of the time, by walking back through the table."""
        units, found = self.knapsack.units, []
        for place in range(len(self.jobs) - 1, -1, -1):
            if self.most[place + 1, units] == self.most[place, units]:
                continue
            option, units = self._taken(place, units)
            found.append((self.jobs[place], option))
        return tuple(sorted(found))

    def _taken(self, place: int, units: int) -> tuple[int, int]:
        """Return the option that the table took here, and the time that was left for the jobs before it."""
        job, before = self.jobs[place], self.most[place]
        for option in np.flatnonzero(self.knapsack.fitting[job]).tolist():
            left = units - int(self.knapsack.lengths[job, option])
            if left >= 0 and before[left] + self.earned[job, option] == self.most[place + 1, units]:
                return option, left
        raise AssertionError("what was earned, one option earned")


# The loop of every proof by device patterns: try worths, and add the patterns that refute them.
UNITS = 2000  # units of time until the horizon
CLOSE = 1e-9  # sums of floating-point numbers differ by less
SMOOTHING = 0.7  # the weight of the best worths so far in the next try
LEAST_SMOOTHING = 0.01
NEAR = 2e-4  # as a share: worths as near to the best as this are good enough
JOBS_OF_A_SAMPLE = 60
SAMPLES = (6, 100)  # the least and the most; in between, one for every ten jobs

KeepGoing = Callable[[], bool]
Patterns = dict[tuple[int, Pattern], None]  # with their pools, in the order in which they were found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Holds worths, and what all lanes earn with them by each time up to the horizon."""

    worths: Numbers
    by_time: Numbers
    has_news: bool  # a pattern that was not known before


def nearness(tried: Tried) -> float:
    """Return how near the horizon is to being ruled out; above 1 it is ruled out."""
    return float(tried.worths.sum() / max(tried.by_time[-1], CLOSE))


class WorthSearch:
    """Looks for the worths that prove most about plans that end by one horizon."""

    def __init__(
        self, table: OptionTable, lanes: Lanes, horizon: int, known: Patterns, units: int = UNITS
    ) -> None:
        self._lanes, self._known = lanes, known
        self.horizon, self.units = horizon, min(horizon, units)
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
        """Yield each try and the best result still possible, until there is nothing more to learn."""
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

    def shares(self) -> Numbers:
        return self._program.shares()

    def seconds_after(self, units: int) -> int:
        """Return the least makespan of more than this many units."""
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
        """Add the best pattern, and more from samples of the jobs that earlier patterns left."""
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
