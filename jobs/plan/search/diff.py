"""What became of a plan: which jobs run otherwise than in an earlier one, and what that changes in all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from slipway.jobs.plan.search.model import Assignment, Plan
from slipway.jobs.plan.search.words import clock, devices_by_node


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
    changes = tuple(_changes(plan, earlier))
    names = {job.name for job in (*plan.jobs, *earlier.jobs)}
    return PlanDiff(
        changes=changes,
        same=len(names) - len(changes),
        makespan_seconds=plan.makespan - earlier.makespan,
        dollars=plan.dollars - earlier.dollars,
    )


def _changes(plan: Plan, earlier: Plan) -> Iterator[PlanChange]:
    now = {each.job: each for each in plan.assignments}
    before = {each.job: each for each in earlier.assignments}
    for name in dict.fromkeys([*before, *now]):
        was, is_now = before.get(name), now.get(name)
        difference = _difference(plan, earlier, was, is_now)
        if difference is not None:
            yield PlanChange(
                job=name,
                difference=difference,
                before="" if was is None else _words(earlier, was),
                after="" if is_now is None else _words(plan, is_now),
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
