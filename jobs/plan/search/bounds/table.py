"""The options of all jobs as arrays, one row for each job: what every proof counts with."""

from __future__ import annotations

from collections.abc import Callable

import highspy
import numpy as np
from numpy.typing import NDArray

from slipway.jobs.plan.search.list_schedule import after_dependencies
from slipway.jobs.plan.search.options import Option, PlanProblem

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = 2**60  # seconds of an option that is not there


class OptionTable:
    """Options by job (row) and place (column); a place that a job does not have takes for ever."""

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
        self.before = _time_before(problem, quickest)  # until a job can start at all
        self.behind = _time_behind(problem, quickest)  # that jobs which wait for it still need
        self._latest = _deadlines(problem, self.before + quickest)

    def fitting(self, makespan: float) -> Flags:
        """Tell which options can be part of a plan that ends by then."""
        ends = self.seconds + self.before[:, None]
        found: Flags = (
            self.is_option & (ends + self.behind[:, None] <= makespan) & (ends <= self._latest[:, None])
        )
        return found

    def longest_job(self) -> int:
        """Return what the longest job takes in its quickest option."""
        return int(self.seconds.min(axis=1).max())

    def longest_chain(self) -> int:
        """Return when the last job ends if each has the pools for itself as soon as it can start."""
        return int((self.before + self.seconds.min(axis=1)).max())


def _table(problem: PlanProblem, of: Callable[[Option], float], padding: float) -> Numbers:
    found = np.full((len(problem.options), max(map(len, problem.options))), padding, dtype=np.float64)
    for job, options in enumerate(problem.options):
        found[job, : len(options)] = [of(option) for option in options]
    return found


def _time_before(problem: PlanProblem, quickest: Whole) -> Whole:
    starts = np.zeros(len(problem.jobs), dtype=np.int64)
    for job in after_dependencies(problem, range(len(problem.jobs))):
        starts[job] = max((starts[before] + quickest[before] for before in problem.after[job]), default=0)
    return starts


def _time_behind(problem: PlanProblem, quickest: Whole) -> Whole:
    behind = np.zeros(len(problem.jobs), dtype=np.int64)
    for job in reversed(list(after_dependencies(problem, range(len(problem.jobs))))):
        for before in problem.after[job]:
            behind[before] = max(behind[before], behind[job] + quickest[job])
    return behind


def _deadlines(problem: PlanProblem, earliest: Whole) -> Whole:
    """Return when each job has to end; a deadline that it cannot meet is not counted."""
    given = [NEVER - 1 if job.deadline is None else job.deadline for job in problem.jobs]
    deadlines = np.array(given, dtype=np.int64)
    return np.where(deadlines < earliest, NEVER - 1, deadlines)


# Small linear programs that grow row by row, solved by HiGHS on one thread.
ENOUGH = 1e-7  # as a share: two values so near to each other are the same
MOST_CUTS = 200


def new_program(costs: Numbers, uppers: Numbers) -> highspy.Highs:
    """Build a program of columns from nought to their upper limits that wants the least cost."""
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
    """Return the columns' values and the cost, or nothing where there is no best."""
    program.run()
    if program.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.array(program.getSolution().col_value), float(program.getObjectiveValue())
