"""The linear program of worths: jobs are worth much, but no pattern of them earns more than its lane."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from slipway.jobs.plan.search.bounds.knapsack import Pattern
from slipway.jobs.plan.search.bounds.linear import add_row, new_program, solve
from slipway.jobs.plan.search.bounds.table import Flags, Numbers, OptionTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Says how many lanes each option takes, how many each pool has, and what a job pays for an option.

    A device is a lane. Where no job pays, all lanes together are worth 1.
    """

    of_options: Numbers
    of_pools: Numbers
    payments: Numbers
    highest: Numbers  # that a lane of each pool may be worth

    def earned(self, worths: Numbers) -> Numbers:
        """Return what each option earns in each of its lanes."""
        earned: Numbers = (worths[:, None] - self.payments) / self.of_options
        return earned


class WorthProgram:
    """Has a column for the worth of each job, and for that of a lane of each pool."""

    def __init__(self, table: OptionTable, lanes: Lanes, fitting: Flags) -> None:
        self._lanes = lanes
        self._jobs = len(fitting)
        self._pays = pays = bool(lanes.payments.any())
        costs = np.concatenate([-np.ones(self._jobs), lanes.of_pools * pays])
        uppers = np.concatenate([np.full(self._jobs, highspy.kHighsInf), lanes.highest])
        self._program = new_program(costs, uppers)
        if not pays:
            add_row(self._program, np.concatenate([np.zeros(self._jobs), lanes.of_pools]), 1.0, 1.0)
        for place in range(len(lanes.of_pools)):
            self._add_single_jobs(place, fitting & (table.pool == place))

    def add(self, place: int, pattern: Pattern) -> None:
        """Let the pattern's jobs earn no more in a lane of the pool than the lane is worth."""
        jobs, options = (np.array(each) for each in zip(*pattern, strict=True))
        lanes = self._lanes.of_options[jobs, options]
        columns = np.append(jobs, self._jobs + place).astype(np.int32)
        paid = float((self._lanes.payments[jobs, options] / lanes).sum())
        self._program.addRow(-highspy.kHighsInf, paid, len(columns), columns, np.append(1 / lanes, -1.0))

    def solve(self) -> tuple[Numbers, float]:
        """Return the worths of the jobs, and the most that is left of them when all lanes have theirs."""
        answer = solve(self._program)
        assert answer is not None, "a job is worth no more than its lanes and what it pays"
        return answer[0][: self._jobs], -answer[1]

    def _add_single_jobs(self, place: int, fitting: Flags) -> None:
        fewest = np.where(fitting, self._lanes.of_options, np.inf).argmin(axis=1)
        for job, row in enumerate(fitting):
            for option in np.flatnonzero(row):
                if self._pays or option == fewest[job]:
                    self.add(place, ((job, int(option)),))
