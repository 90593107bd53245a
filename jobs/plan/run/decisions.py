"""Decide what to do next: which jobs may start, which must move, and whether to plan again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slipway.jobs.plan.run.journal import JobStage, JobStanding, Ledger
from slipway.jobs.plan.search.model import Assignment, PlanJob
from slipway.jobs.plan.search.replan import Standing

OFF = 0.1  # as a share: plan again if an estimate is off by more
_LEAST_SEEN = 0.05  # share of a job between two reports, from which on its pace counts
_ALMOST = 0.95  # the most that counts as done of an attempt that reports no progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Holds how much of the whole job was done at a moment."""

    at: float  # Unix seconds
    done: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Holds what a cluster knows of an attempt now."""

    outcome: str | None = None  # succeeded, failed, withdrawn or lost (with its node); None: it has not ended
    began: float | None = None  # Unix seconds; None: its processes have not started
    ended: float | None = None
    first: Report | None = None  # the first report of this attempt: the time before it was its start-up
    last: Report | None = None
    why: str = ""


def find_ready(jobs: Sequence[PlanJob], ledger: Ledger) -> Iterator[tuple[PlanJob, Assignment]]:
    """Yield the jobs that are next on every device that the plan gives them."""
    taken = {
        device
        for standing in ledger.jobs.values()
        if standing.stage.is_held and standing.assignment
        for device in devices_of(standing.assignment)
    }
    waiting = [
        (planned.start, place, job, planned)
        for place, job in enumerate(jobs)
        if (planned := ledger.jobs[job.name].planned) and ledger.jobs[job.name].stage is JobStage.WAITING
    ]
    for _, _, job, planned in sorted(waiting, key=lambda each: each[:2]):
        devices = devices_of(planned)
        may_start = all(ledger.jobs[name].stage is JobStage.SUCCEEDED for name in job.depends_on)
        if may_start and not devices & taken:
            yield job, planned
        taken |= devices


def find_skipped(jobs: Sequence[PlanJob], ledger: Ledger) -> Iterator[tuple[PlanJob, str]]:
    """Yield each job that depends on one that will never succeed, with the name of that one."""
    for job in jobs:
        if ledger.jobs[job.name].stage is JobStage.WAITING:
            for name in job.depends_on:
                stage = ledger.jobs[name].stage
                if stage.is_final and stage is not JobStage.SUCCEEDED:
                    yield job, name
                    break


def find_movers(ledger: Ledger) -> Iterator[tuple[str, Assignment]]:
    """Yield the jobs that run elsewhere than the current plan has them."""
    for name, standing in ledger.jobs.items():
        planned, current = standing.planned, standing.assignment
        if standing.stage is JobStage.RUNNING and planned and current and _place(planned) != _place(current):
            yield name, planned


def devices_of(assignment: Assignment) -> set[tuple[int, int, int]]:
    return {
        (assignment.pool, share.node, device) for share in assignment.placement for device in share.devices
    }


def standing_of(
    standing: JobStanding, sight: Sight | None, now: float, *, saved_in: frozenset[int] | None
) -> Standing:
    """Estimate how far a job has come, and how its pace compares with the first estimate.

    `saved_in` are the pools whose cluster can read its checkpoints; None means all pools.
    """
    current = standing.assignment
    share, pace = (0.0, None) if current is None or sight is None else progress_of(standing, sight, now)
    ratios = dict(standing.ratios)
    if current and pace is not None:
        ratios[current.mode.type] = ratios.get(current.mode.type, 1.0) * pace
    return Standing(
        left=standing.left * (1 - share),
        ratios=ratios,
        running=current,
        planned=current or standing.planned,
        saved_in=saved_in,
        must_stay=current is not None and pace is None,
    )


def progress_of(standing: JobStanding, sight: Sight, now: float) -> tuple[float, float | None]:
    """Return which share of an attempt's work is done, and its remaining time over the time planned for that.

    The second is None while it is unknown: the pace of a job that has just begun says nothing.
    """
    assert standing.assignment is not None
    if sight.began is None:
        return 0.0, None
    planned = max(1, standing.assignment.seconds)
    passed = max(0.0, (sight.ended or now) - sight.began)
    if sight.outcome == "succeeded":
        return 1.0, passed / planned
    if sight.first is None or sight.last is None:
        share = min(passed / planned, _ALMOST)
        return share, passed / (planned * _ALMOST) if passed > planned * _ALMOST else None
    share = min(1.0, max(0.0, 1 - (1 - sight.last.done) / standing.left))
    seen = sight.last.done - sight.first.done
    if seen < _LEAST_SEEN or share >= 1:
        return share, None
    left = (1 - sight.last.done) * (sight.last.at - sight.first.at) / seen
    return share, left / (planned * (1 - share))


def left_after(standing: JobStanding, sight: Sight) -> float:
    """Return the share of a job that is left after a stopped attempt: only reported work is saved."""
    return standing.left if sight.last is None else min(standing.left, max(0.0, 1 - sight.last.done))


def is_another_plan(ledger: Ledger, assignments: Sequence[Assignment]) -> bool:
    """Return True if any job gets another place, mode or turn than in the current plan."""
    before = [
        (each.planned.start, name, _place(each.planned))
        for name, each in ledger.jobs.items()
        if each.planned and each.stage is JobStage.WAITING
    ]
    waiting = {name for name, each in ledger.jobs.items() if each.stage is JobStage.WAITING}
    after = [(each.start, each.job, _place(each)) for each in assignments if each.job in waiting]
    if [each[1:] for each in sorted(before)] != [each[1:] for each in sorted(after)]:
        return True
    current = {name: each.assignment for name, each in ledger.jobs.items()}
    return any(
        (where := current[each.job]) is not None and _place(where) != _place(each) for each in assignments
    )


def _place(assignment: Assignment) -> tuple[object, ...]:
    return assignment.pool, assignment.mode.way, assignment.placement
