"""Solve Saturn's formulation with a free solver: a binary variable for each choice and each order.

A job chooses a mode and its devices; for each two jobs on a device a binary variable says which one is first,
with the sum of all times as the big-M constant. The published formulation takes 1e10, with which free solvers
find nothing, or plans in which jobs overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import highspy

from slipway.jobs.plan.search.options import PlanProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Holds a job's start and end, and for each device whether it takes it: expressions of highspy."""

    start: Any
    end: Any
    devices: Any


def saturn_makespan(problem: PlanProblem, seconds: float) -> float | None:
    """Return the makespan of the best plan that HiGHS finds in this many seconds, or None."""
    (pool,) = problem.pools
    assert pool.nodes == 1, "one node, as in the comparison"
    horizon = float(sum(max(option.seconds for option in each) for each in problem.options))
    solver = highspy.Highs()  # type: ignore[no-untyped-call] # its class has no annotations
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)  # HiGHS needs the same number in all programs of a process
    solver.setOptionValue("time_limit", seconds)
    makespan = solver.addVariable(ub=horizon)
    jobs = []
    for options in problem.options:
        modes, devices = solver.addBinaries(len(options)), solver.addBinaries(pool.devices_per_node)
        solver.addConstr(solver.qsum(modes) == 1)
        chosen = list(zip(modes, options, strict=True))
        solver.addConstr(
            solver.qsum(devices) == solver.qsum(mode * option.devices for mode, option in chosen)
        )
        start = solver.addVariable(ub=horizon)
        end = start + solver.qsum(mode * option.seconds for mode, option in chosen)
        solver.addConstr(makespan >= end)
        jobs.append(_Columns(start=start, end=end, devices=devices))
    for one, other in combinations(jobs, 2):
        is_first = solver.addBinary()
        for at_one, at_other in zip(one.devices, other.devices, strict=True):  # where both take a device
            apart = horizon * (2 - at_one - at_other)
            solver.addConstr(other.start >= one.end - apart - horizon * (1 - is_first))
            solver.addConstr(one.start >= other.end - apart - horizon * is_first)
    solver.minimize(makespan)
    info = solver.getInfo()
    has_plan = int(info.primal_solution_status) == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    return float(info.objective_function_value) if has_plan else None
