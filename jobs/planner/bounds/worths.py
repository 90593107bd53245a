"""The linear program of worths: all jobs are worth as much as possible, but no pattern more than its lane."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from slipway.jobs.planner.bounds.knapsack import Pattern
from slipway.jobs.planner.bounds.linear import add_row, new_program, solve
from slipway.jobs.planner.bounds.table import Flags, Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Says how many lanes each option takes, and how many each pool has; a device is one."""

    of_options: Numbers
    of_pools: Numbers


class WorthProgram:
    """Columns: the worth of each job, then of a lane of each pool; all lanes together are worth 1."""

    def __init__(self, lanes: Lanes, pool: Numbers, fitting: Flags) -> None:
        self._lanes = lanes
        self._jobs, pools = len(fitting), len(lanes.of_pools)
        costs = np.concatenate([-np.ones(self._jobs), np.zeros(pools)])
        self._program = new_program(costs, np.full(len(costs), highspy.kHighsInf))
        all_lanes = np.concatenate([np.zeros(self._jobs), lanes.of_pools])
        add_row(self._program, all_lanes, 1.0, 1.0)
        for place in range(pools):
            self._add_single_jobs(place, fitting & (pool == place))

    def add(self, place: int, pattern: Pattern) -> None:
        """Let the pattern's jobs earn no more in a lane of the pool than the lane is worth."""
        jobs = [job for job, _ in pattern]
        earned = [1.0 / self._lanes.of_options[job, option] for job, option in pattern]
        columns = np.array([*jobs, self._jobs + place], dtype=np.int32)
        values = np.array([*earned, -1.0])
        self._program.addRow(-highspy.kHighsInf, 0.0, len(columns), columns, values)

    def solve(self) -> tuple[Numbers, float]:
        """Return the worths of the jobs, and of all together."""
        answer = solve(self._program)
        assert answer is not None, "each job is worth no more than a lane"
        return answer[0][: self._jobs], -answer[1]

    def _add_single_jobs(self, place: int, fitting: Flags) -> None:
        lanes = np.where(fitting, self._lanes.of_options, np.inf)
        for job in np.flatnonzero(fitting.any(axis=1)):
            self.add(place, ((int(job), int(lanes[job].argmin())),))
