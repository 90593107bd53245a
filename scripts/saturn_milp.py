"""Solve Saturn's formulation with a free solver: a binary variable for each choice and each order.

A job chooses a mode and its devices; for each two jobs on a device a binary variable says which one is first,
with the sum of all times as the big-M constant. The published formulation takes 1e10, with which free solvers
find nothing, or plans in which jobs overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import highspy

from slipway.jobs.plan.search.options import Option, PlanProblem

Terms = Sequence[tuple[int, float]]


def saturn_makespan(problem: PlanProblem, seconds: float) -> float | None:
    """Return the makespan of the best plan that HiGHS finds in this many seconds, or None."""
    (pool,) = problem.pools
    assert pool.nodes == 1, "one node, as in the comparison"
    program = _Program(float(sum(max(option.seconds for option in each) for each in problem.options)))
    jobs = [_JobColumns(program, options, pool.devices_per_node) for options in problem.options]
    for one, other in combinations(jobs, 2):
        _add_order(program, one, other)
    return program.least(seconds)


class _Program:
    """A mixed-integer program whose first column is the makespan."""

    def __init__(self, horizon: float) -> None:
        self.horizon = horizon
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call] # its class has no annotations
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)  # HiGHS needs the same number in all programs of a process
        self._columns = 0
        self.makespan = self.column(horizon, cost=1.0)

    def column(self, upper: float, *, cost: float = 0.0, is_whole: bool = False) -> int:
        self._solver.addCol(cost, 0.0, upper, 0, [], [])
        if is_whole:
            self._solver.changeColIntegrality(self._columns, highspy.HighsVarType.kInteger)
        self._columns += 1
        return self._columns - 1

    def row(self, terms: Terms, lower: float, upper: float = highspy.kHighsInf) -> None:
        columns, values = [column for column, _ in terms], [value for _, value in terms]
        self._solver.addRow(lower, upper, len(terms), columns, values)

    def least(self, seconds: float) -> float | None:
        self._solver.setOptionValue("time_limit", seconds)
        self._solver.run()
        info = self._solver.getInfo()
        has_plan = int(info.primal_solution_status) == int(highspy.SolutionStatus.kSolutionStatusFeasible)
        return float(info.objective_function_value) if has_plan else None


class _JobColumns:
    """A job's columns: its start, a mode of several, and the devices on which that runs."""

    def __init__(self, program: _Program, options: Sequence[Option], devices: int) -> None:
        self.start = program.column(program.horizon)
        modes = [program.column(1, is_whole=True) for _ in options]
        self.devices = [program.column(1, is_whole=True) for _ in range(devices)]
        self.times = [(mode, float(option.seconds)) for mode, option in zip(modes, options, strict=True)]
        program.row([(mode, 1.0) for mode in modes], 1.0, 1.0)
        asked = [(mode, -float(option.devices)) for mode, option in zip(modes, options, strict=True)]
        program.row([*((device, 1.0) for device in self.devices), *asked], 0.0, 0.0)
        late = [(column, -value) for column, value in self.times]
        program.row([(program.makespan, 1.0), (self.start, -1.0), *late], 0.0)


def _add_order(program: _Program, one: _JobColumns, other: _JobColumns) -> None:
    """On each device that both take, let one of the two end before the other starts."""
    is_first, big = program.column(1, is_whole=True), program.horizon
    for at_one, at_other in zip(one.devices, other.devices, strict=True):
        both = [(at_one, -big), (at_other, -big)]
        _add_after(program, other, one, [*both, (is_first, -big)], -3 * big)
        _add_after(program, one, other, [*both, (is_first, big)], -2 * big)


def _add_after(program: _Program, later: _JobColumns, first: _JobColumns, rest: Terms, lower: float) -> None:
    took = [(column, -value) for column, value in first.times]
    program.row([(later.start, 1.0), (first.start, -1.0), *took, *rest], lower)
