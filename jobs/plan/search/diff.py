"""Compare a plan with an earlier one: which jobs run otherwise, and how makespan and dollars change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from slipway.jobs.plan.search.model import Assignment, Objective, Plan, Pool, dollars_of
from slipway.jobs.words.text import money


class Difference(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    MODE = "other mode"
    PLACE = "other devices"
    TIME = "other time"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """Describes one job that the two plans treat differently."""

    job: str
    difference: Difference
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDiff:
    changes: tuple[PlanChange, ...]
    same: int  # jobs with the same mode, devices and times
    makespan_seconds: int  # more than before
    dollars: float  # more than before


def diff(plan: Plan, earlier: Plan) -> PlanDiff:
    """Compare a plan with an earlier one, job by job, by name."""
    now = {each.job: each for each in plan.assignments}
    before = {each.job: each for each in earlier.assignments}
    changes = []
    for name in dict.fromkeys([*before, *now]):
        was, is_now = before.get(name), now.get(name)
        difference = _difference(plan, earlier, was, is_now)
        if difference is not None:
            changes.append(
                PlanChange(
                    job=name,
                    difference=difference,
                    before="" if was is None else _words(earlier, was),
                    after="" if is_now is None else _words(plan, is_now),
                )
            )
    names = {job.name for job in (*plan.jobs, *earlier.jobs)}
    return PlanDiff(
        changes=tuple(changes),
        same=len(names) - len(changes),
        makespan_seconds=plan.makespan - earlier.makespan,
        dollars=plan.dollars - earlier.dollars,
    )


def _difference(
    plan: Plan, earlier: Plan, was: Assignment | None, is_now: Assignment | None
) -> Difference | None:
    if was is None:
        return Difference.ADDED
    if is_now is None:
        return Difference.REMOVED
    if was.mode.way != is_now.mode.way:
        return Difference.MODE
    if earlier.pools[was.pool].type != plan.pools[is_now.pool].type or was.placement != is_now.placement:
        return Difference.PLACE
    if (was.start, was.seconds) != (is_now.start, is_now.seconds):
        return Difference.TIME
    return None


def _words(plan: Plan, each: Assignment) -> str:
    where = devices_by_node(each, plan.pools[each.pool])
    return (
        f"{each.mode.technique} on {each.mode.devices} × {each.mode.type} (node {where}), "
        f"{clock(each.start)} to {clock(each.end)}"
    )


# Describe a plan in words, for its table, its picture and its summary.


def dollars_of_job(plan: Plan, each: Assignment) -> float:
    """Return the cost of a job's share of its nodes while it runs."""
    return dollars_of(each.mode, plan.pools[each.pool], each.seconds)


def devices_by_node(each: Assignment, pool: Pool) -> str:
    """Write `2: 0-3` for four devices of node 2, and `4-7` for whole nodes."""
    if all(len(share.devices) == pool.devices_per_node for share in each.placement):
        return ranges(sorted(share.node for share in each.placement))
    return ", ".join(f"{share.node}: {ranges(sorted(share.devices))}" for share in each.placement)


def ranges(numbers: Sequence[int]) -> str:
    """Write sorted numbers as `0-3,6`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def clock(seconds: float) -> str:
    """Write a time as hours, minutes and seconds: 36:05:09."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"


def value_words(plan: Plan, value: float) -> str:
    """Write a value of the goal: a time or dollars."""
    return f"${money(value)}" if plan.goal.objective is Objective.COST else clock(value)


def progress_words(plan: Plan) -> str:
    what = "cost" if plan.goal.objective is Objective.COST else "makespan"
    return f"{what} {value_words(plan, plan.value)}, {bound_words(plan)}"


def bound_words(plan: Plan) -> str:
    if plan.bound.value <= 0:
        return "no lower bound"
    return f"lower bound {value_words(plan, plan.bound.value)} ({plan.bound.name}), gap {plan.gap:.1%}"


def summary(plan: Plan) -> str:
    """Return one line: makespan, dollars, how far from the best the plan may be, and why the search ended."""
    said = f"makespan {clock(plan.makespan)}, ${money(plan.dollars)}; {bound_words(plan)}"
    return f"{said}; stopped: {plan.stopped}" if plan.stopped else said
