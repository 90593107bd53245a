"""Hold the options of all jobs as arrays, one row for each job, for all proofs."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import highspy
import numpy as np
from numpy.typing import NDArray

from slipway.jobs.plan.search.list_schedule import after_dependencies
from slipway.jobs.plan.search.options import Option, PlanProblem

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = 2**60  # seconds of an option that does not exist


class OptionTable:
    """Options by job (row) and place (column); an option that a job does not have takes for ever."""

    def __init__(self, problem: PlanProblem) -> None:
        self.problem = problem
        self.seconds: Whole = _table(problem, lambda option: option.seconds, NEVER).astype(np.int64)
        self.pool: Whole = _table(problem, lambda option: option.pool, 0).astype(np.int64)
        self.devices = _table(problem, lambda option: option.devices, 1)
        self.is_option: Flags = self.seconds < NEVER
        self.area: Numbers = self.seconds * self.devices
        self.dollars = _table(problem, lambda option: option.dollars, 0)
        self.capacity: Numbers = np.array(problem.capacity, dtype=np.float64)
        quickest = self.seconds.min(axis=1)
        order = list(after_dependencies(problem, range(len(problem.jobs))))
        self.before: Whole = np.zeros_like(quickest)  # the earliest that a job can start
        for job in order:
            ends = (self.before[each] + quickest[each] for each in problem.after[job])
            self.before[job] = max(ends, default=0)
        self.behind: Whole = np.zeros_like(quickest)  # the least that jobs which depend on it still need
        for job in reversed(order):
            for each in problem.after[job]:
                self.behind[each] = max(self.behind[each], self.behind[job] + quickest[job])
        given = [NEVER - 1 if job.deadline is None else job.deadline for job in problem.jobs]
        deadlines: Whole = np.array(given, dtype=np.int64)
        # A deadline that its job cannot meet does not count.
        self._latest = np.where(deadlines < self.before + quickest, NEVER - 1, deadlines)

    def fitting(self, makespan: float) -> Flags:
        """Return which options can be part of a plan that ends by this makespan."""
        ends = self.seconds + self.before[:, None]
        found: Flags = (
            self.is_option & (ends + self.behind[:, None] <= makespan) & (ends <= self._latest[:, None])
        )
        return found

    def only(self, options: Flags) -> OptionTable:
        """Return the table without the other options."""
        found = copy(self)
        found.is_option = options
        return found

    def longest_job(self) -> int:
        """Return the seconds of the longest job in its quickest option."""
        return int(self.seconds.min(axis=1).max())

    def longest_chain(self) -> int:
        """Return when the last job ends if each starts as soon as it can, with all pools to itself."""
        return int((self.before + self.seconds.min(axis=1)).max())


def _table(problem: PlanProblem, of: Callable[[Option], float], padding: float) -> Numbers:
    found = np.full((len(problem.options), max(map(len, problem.options))), padding, dtype=np.float64)
    for job, options in enumerate(problem.options):
        found[job, : len(options)] = [of(option) for option in options]
    return found


# Solve small linear programs, which grow row by row, with HiGHS on one thread.
ENOUGH = 1e-7  # as a share: values as near as this count as equal
MOST_CUTS = 200


def new_program(costs: Numbers, uppers: Numbers) -> highspy.Highs:
    """Build a program that minimises the cost of columns from 0 to their upper limits."""
    program = highspy.Highs()  # type: ignore[no-untyped-call] # its class has no annotations
    program.setOptionValue("output_flag", False)
    program.setOptionValue("threads", 1)
    for cost, upper in zip(costs, uppers, strict=True):
        program.addCol(float(cost), 0.0, float(upper), 0, [], [])
    return program


def add_row(program: highspy.Highs, values: Numbers, lower: float, upper: float) -> None:
    columns = np.flatnonzero(values).astype(np.int32)
    program.addRow(lower, upper, len(columns), columns, values[columns])


def solve(program: highspy.Highs) -> tuple[Numbers, float] | None:
    """Return the columns' values and the cost, or None if there is no optimum."""
    program.run()
    if program.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.array(program.getSolution().col_value), float(program.getObjectiveValue())
