"""Explain a job's mode: show which plan each other mode would lead to.

The jobs are placed again with the other mode; all other jobs keep their modes and order. There is no search,
so what is shown is the most that a plan with the other mode needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from slipway.jobs.plan.search.diff import PlanDiff, clock, diff, value_words
from slipway.jobs.plan.search.list_schedule import as_plan, list_schedule
from slipway.jobs.plan.search.model import Assignment, Goal, Objective, Plan, PlanJob
from slipway.jobs.plan.search.options import Option, PlanProblem, new_problem, option_as_assigned
from slipway.jobs.plan.search.refusals import CannotPlan, quoted, words_of
from slipway.jobs.words.errors import did_you_mean
from slipway.jobs.words.run import SECONDS_PER_HOUR
from slipway.jobs.words.text import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Describes one way to run the job, and the plan that it leads to."""

    option: Option
    is_chosen: bool
    makespan: int
    dollars: float
    misses: str  # the deadline or budget that this plan would miss, or empty

    @property
    def device_hours(self) -> float:
        return self.option.area / SECONDS_PER_HOUR

    def value(self, goal: Goal) -> float:
        return self.dollars if goal.objective is Objective.COST else float(self.makespan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeExplanation:
    assignment: Assignment
    why: str
    next_best: str
    alternatives: tuple[Alternative, ...]  # the chosen one first, then from the best to the worst


def explain(plan: Plan, job: str) -> ModeExplanation:
    """Compare the job's mode with each other mode that fits a pool."""
    names = [each.name for each in plan.jobs]
    refuse_stranger(job, names)
    place, problem = names.index(job), new_problem(plan.jobs, plan.pools, plan.goal)
    chosen = plan.assignments[place]
    others = sorted(
        (
            _try(plan, problem, place, option)
            for option in problem.options[place]
            if (option.mode, option.pool) != (chosen.mode, chosen.pool)
        ),
        key=lambda each: (bool(each.misses), each.value(plan.goal), each.makespan, each.dollars),
    )
    own = Alternative(
        option=option_as_assigned(chosen, plan.pools[chosen.pool]),
        is_chosen=True,
        makespan=plan.makespan,
        dollars=plan.dollars,
        misses="",
    )
    return ModeExplanation(
        assignment=chosen,
        why=_why(own, others, plan),
        next_best=_next_best(others, plan),
        alternatives=(own, *others),
    )


def refuse_stranger(job: str, names: Sequence[str]) -> None:
    if job not in names:
        raise CannotPlan(
            f"there is no job {quoted(job)} to explain",
            hint=did_you_mean(job, names, otherwise=f"the jobs are {', '.join(map(printable, names[:5]))} …"),
        )


def _try(plan: Plan, problem: PlanProblem, place: int, option: Option) -> Alternative:
    """Place all jobs in order of start, with this one in its turn, first and last; take the best."""
    options = [option_as_assigned(each, plan.pools[each.pool]) for each in plan.assignments]
    options[place] = option
    fixed = replace(problem, options=tuple((each,) for each in options))
    order = sorted(range(len(options)), key=lambda job: (plan.assignments[job].start, job))
    others = [job for job in order if job != place]
    plans = [
        as_plan(problem, list_schedule(fixed, [0] * len(options), tried), plan.bound)
        for tried in (order, [place, *others], [*others, place])
    ]
    best = min(plans, key=lambda each: (bool(_missed(each)), each.value, each.makespan))
    return Alternative(
        option=option, is_chosen=False, makespan=best.makespan, dollars=best.dollars, misses=_missed(best)
    )


def _missed(plan: Plan) -> str:
    """Say which deadline or budget a plan misses."""
    goal = plan.goal
    if goal.deadline is not None and plan.makespan > goal.deadline:
        return "the deadline"
    if goal.budget is not None and plan.dollars > goal.budget:
        return "the budget"
    late = [
        job.name
        for job, each in zip(plan.jobs, plan.assignments, strict=True)
        if job.deadline is not None and each.end > job.deadline
    ]
    return f"the deadline of {quoted(late[0])}" if late else ""


def _why(own: Alternative, others: Sequence[Alternative], plan: Plan) -> str:
    """Compare device-hours or dollars, the resources that jobs take from each other."""
    if not others:
        return "no pool has room for another mode"
    of_cost = plan.goal.objective is Objective.COST
    what = "dollars" if of_cost else "device-hours"

    def scarce(each: Alternative) -> float:
        return each.option.dollars if of_cost else each.device_hours

    less = [each for each in others if scarce(each) < scarce(own)]
    quicker = min([own, *others], key=lambda each: each.option.seconds)
    if not less:
        return f"no other mode takes fewer {what}" + (", and none is quicker" if quicker is own else "")
    least = min(less, key=scarce)
    fewer = 1 - scarce(least) / scarce(own)
    return (
        f"{words_of(least.option.mode)} takes the fewest {what} ({fewer:.1%} fewer) and "
        f"{clock(least.option.seconds)}, here {clock(own.option.seconds)}"
    )


def _next_best(others: Sequence[Alternative], plan: Plan) -> str:
    if not others:
        return "there is none"
    best = others[0]
    what = "cost" if plan.goal.objective is Objective.COST else "makespan"
    value = best.value(plan.goal)
    more = f", {value / plan.value - 1:+.1%}" if plan.value else ""
    missed = f", which misses {best.misses}" if best.misses else ""
    if value < plan.value and not missed:
        missed = "; a longer search may find it"
    return (
        f"{words_of(best.option.mode)}: with it the plan's {what} is at most "
        f"{value_words(plan, value)}{more}{missed}"
    )


# The plan for users of Python: it explains its choices, and compares itself with another plan.


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredPlan(Plan):
    @classmethod
    def of(cls, plan: Plan) -> AnsweredPlan:
        return cls(**{field.name: getattr(plan, field.name) for field in fields(Plan)})

    def explain(self, job: str) -> ModeExplanation:
        """Explain a job's mode, and what the next best would cost."""
        return explain(self, job)

    def diff(self, earlier: Plan) -> PlanDiff:
        """Return the differences from an earlier plan."""
        return diff(self, earlier)


# Notes on modes that no plan uses.
_MOST_TOLD = 3


def left_out(jobs: Sequence[PlanJob]) -> list[str]:
    """Return notes on modes that are no faster than one with fewer devices; name the first few."""
    found = []
    modes = ((job, mode) for job in jobs for mode in job.modes)
    for job, mode in modes:
        same_type = [each for each in job.modes if each.type == mode.type]
        fewer = [each for each in same_type if each.devices < mode.devices and each.seconds <= mode.seconds]
        if fewer:
            least = min(fewer, key=lambda each: each.devices)
            where = f"job {quoted(job.name)}: {words_of(mode)}"
            found.append(f"{where} is left out: with {least.devices} it takes no longer")
    more = len(found) - _MOST_TOLD
    return [*found[:_MOST_TOLD], f"{more} more modes are left out for the like"] if more > 0 else found
