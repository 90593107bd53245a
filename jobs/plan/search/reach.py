"""Refuse a goal that nothing reaches, and say how near to it a plan may come."""

from __future__ import annotations

import math

from slipway.jobs.plan.search.list_schedule import after_dependencies
from slipway.jobs.plan.search.model import LowerBound
from slipway.jobs.plan.search.options import PlanProblem
from slipway.jobs.plan.search.refusals import CannotPlan, quoted
from slipway.jobs.words.cost import SECONDS_PER_HOUR

_CENT = 0.01


def refuse_unreachable(problem: PlanProblem, makespan: LowerBound) -> None:
    """Raise CannotPlan if a deadline or the budget is below what every plan needs."""
    _refuse_job_deadlines(problem)
    _refuse_deadline(problem, makespan)
    _refuse_budget(problem)


def cheapest(problem: PlanProblem) -> float:
    """Return what no plan costs less than: each job in its cheapest mode."""
    return math.fsum(min(option.dollars for option in options) for options in problem.options)


def in_hours(seconds: float) -> str:
    """Write a time in seconds, and in hours where these tell more."""
    if seconds < SECONDS_PER_HOUR:
        return f"{seconds:,.0f} s"
    return f"{seconds:,.0f} s ({seconds / SECONDS_PER_HOUR:,.2f} h)"


def _refuse_job_deadlines(problem: PlanProblem) -> None:
    for job, earliest in zip(problem.jobs, _earliest_ends(problem), strict=True):
        if job.deadline is not None and job.deadline < earliest:
            waits = " after the jobs that it waits for" if job.depends_on else ""
            raise CannotPlan(
                f"job {quoted(job.name)} has a deadline of {in_hours(job.deadline)}, and its fastest "
                f"mode{waits} ends at {in_hours(earliest)}",
                hint="give it more time, or a faster mode",
            )


def _earliest_ends(problem: PlanProblem) -> list[int]:
    """Return when each job ends if it and all before it run in their fastest modes as soon as they can."""
    ends = [0] * len(problem.jobs)
    for job in after_dependencies(problem, range(len(problem.jobs))):
        ready = max((ends[before] for before in problem.after[job]), default=0)
        ends[job] = ready + min(option.seconds for option in problem.options[job])
    return ends


def _refuse_deadline(problem: PlanProblem, makespan: LowerBound) -> None:
    deadline = problem.goal.deadline
    if deadline is not None and deadline < makespan.value:
        raise CannotPlan(
            f"the deadline is {in_hours(deadline)}, and no plan ends before {in_hours(makespan.value)} "
            f"(lower bound: {makespan.name})",
            hint=f"allow at least {math.ceil(makespan.value)} s, or add nodes",
        )


def _refuse_budget(problem: PlanProblem) -> None:
    budget, least = problem.goal.budget, cheapest(problem)
    if budget is not None and budget < least * (1 - 1e-9):
        up = math.ceil(least / _CENT) * _CENT
        raise CannotPlan(
            f"the budget is {budget:,.2f} dollars, and no plan costs less than {up:,.2f} (every job in its "
            "cheapest mode)",
            hint=f"allow at least {up:.2f} dollars, or add a cheaper pool",
        )
