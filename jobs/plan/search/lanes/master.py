"""The linear program that shares the devices among lanes, so that every job is on one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from slipway.jobs.plan.search.lanes.lane import Floats, Lane, Menu

PRIMAL_SIMPLEX = 4  # HiGHS's number; columns were added, so the last basis is still primal feasible


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """An optimum: how much of each lane is used, and what jobs and devices are worth."""

    value: float
    lanes: Floats
    jobs: Floats
    pools: Floats  # of one device


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Says what is minimised: the devices needed, or dollars on the devices that there are."""

    capacity: Floats  # devices of each pool
    reserved: Floats  # of them, those kept for jobs outside the program
    is_dollars: bool = False
    penalty: float = 1.0  # of needing as many devices again as there are


class Master:
    """Holds the program while lanes are added, fixed and closed."""

    def __init__(self, menu: Menu, jobs: Sequence[int], aim: Aim) -> None:
        self._menu, self._aim = menu, aim
        self._rows = {job: row for row, job in enumerate(jobs)}
        self.lanes: list[Lane] = []
        solver = highspy.Highs()  # type: ignore[no-untyped-call]  # its stub gives no return type
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("simplex_strategy", PRIMAL_SIMPLEX)
        for _ in jobs:
            solver.addRow(1.0, highspy.kHighsInf, 0, [], [])
        for devices, reserved in zip(aim.capacity, aim.reserved, strict=True):
            limit = devices - reserved if aim.is_dollars else -reserved
            solver.addRow(-highspy.kHighsInf, float(limit), 0, [], [])
        pools = len(aim.capacity)
        rows = np.arange(len(jobs), len(jobs) + pools, dtype=np.int32)
        solver.addCol(aim.penalty, 0.0, highspy.kHighsInf, pools, rows, -aim.capacity)
        self._solver = solver

    def add(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            rows = [self._rows[job] for job in lane.jobs]
            pool = len(self._rows) + int(self._menu.pools[lane.kind])
            width = float(self._menu.devices[lane.kind])
            cost = (
                float(self._menu.dollars[lane.kind, list(lane.jobs)].sum()) if self._aim.is_dollars else 0.0
            )
            self._solver.addCol(
                cost,
                0.0,
                highspy.kHighsInf,
                len(rows) + 1,
                np.array([*rows, pool], dtype=np.int32),
                np.array([1.0] * len(rows) + [width]),
            )
            self.lanes.append(lane)

    def solve(self) -> Shares:
        self._solver.run()
        solution = self._solver.getSolution()
        duals = np.array(solution.row_dual)
        jobs = len(self._rows)
        return Shares(
            value=float(self._solver.getObjectiveValue()),
            lanes=np.array(solution.col_value)[1:],
            jobs=np.maximum(duals[:jobs], 0.0),
            pools=np.maximum(-duals[jobs:], 0.0),
        )

    def fix(self, lane: int) -> None:
        self._solver.changeColBounds(lane + 1, 1.0, 1.0)

    def close(self, lane: int) -> None:
        self._solver.changeColBounds(lane + 1, 0.0, 0.0)
