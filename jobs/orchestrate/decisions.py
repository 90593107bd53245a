"""What to do next, decided from what is known: who may start, who must move, and whether to plan again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slipway.jobs.orchestrate.ledger import JobStage, JobStanding, Ledger
from slipway.jobs.planner.model import Assignment, PlanJob
from slipway.jobs.planner.replan import Standing

OFF = 0.1  # an estimate that is off by more is a reason to plan again
_LEAST_SEEN = 0.05  # of an attempt, before its pace says anything
_ALMOST = 0.95  # of an attempt whose progress nobody reports, however long it takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Says what a cluster knows of an attempt now."""

    outcome: str | None = None  # succeeded, failed, withdrawn or lost (with its node); None: it has not ended
    began: float | None = None  # Unix seconds; None: its processes have not started
    ended: float | None = None
    done: float | None = None  # the share of the whole job that is done; None: it does not say
    why: str = ""


def find_ready(jobs: Sequence[PlanJob], ledger: Ledger) -> Iterator[tuple[PlanJob, Assignment]]:
    """Yield the jobs whose turn it is on every device that the plan gives them."""
    taken = {
        device
        for standing in ledger.jobs.values()
        if standing.stage.is_held and standing.assignment
        for device in devices_of(standing.assignment)
    }
    for job, planned in _in_turn(jobs, ledger):
        devices = devices_of(planned)
        if not devices & taken and _may_start(job, ledger):
            yield job, planned
        taken |= devices


def find_skipped(jobs: Sequence[PlanJob], ledger: Ledger) -> Iterator[tuple[PlanJob, str]]:
    """Yield the jobs that wait for one that will never succeed, each with that one's name."""
    for job in jobs:
        if ledger.jobs[job.name].stage is JobStage.WAITING:
            for name in job.depends_on:
                stage = ledger.jobs[name].stage
                if stage.is_final and stage is not JobStage.SUCCEEDED:
                    yield job, name
                    break


def find_movers(ledger: Ledger) -> Iterator[tuple[str, Assignment]]:
    """Yield the jobs that run elsewhere than the plan in force has them."""
    for name, standing in ledger.jobs.items():
        planned, current = standing.planned, standing.assignment
        if standing.stage is JobStage.RUNNING and planned and current and not is_same_place(planned, current):
            yield name, planned


def is_same_place(one: Assignment, other: Assignment) -> bool:
    return _place(one) == _place(other)


def devices_of(assignment: Assignment) -> set[tuple[int, int, int]]:
    return {
        (assignment.pool, share.node, device) for share in assignment.placement for device in share.devices
    }


def standing_of(standing: JobStanding, sight: Sight | None, now: float) -> Standing:
    """Estimate how far a job is, and how its pace compares with the first estimate."""
    current = standing.assignment
    if current is None or sight is None or sight.began is None:
        return Standing(
            left=standing.left, ratio=standing.ratio, running=current, planned=current or standing.planned
        )
    share, pace = progress_of(standing, sight, now)
    return Standing(
        left=standing.left * (1 - share),
        ratio=standing.ratio * pace,
        running=current,
        planned=current,
    )


def progress_of(standing: JobStanding, sight: Sight, now: float) -> tuple[float, float]:
    """Return what share of an attempt's work is done, and its time over what was planned for it."""
    assert standing.assignment is not None
    assert sight.began is not None
    planned = standing.assignment.seconds
    passed = max(0.0, (sight.ended or now) - sight.began)
    if sight.outcome == "succeeded":
        return 1.0, passed / planned if planned else 1.0
    if sight.done is None:
        share = min(passed / planned, _ALMOST)
        return share, max(1.0, passed / (planned * _ALMOST))
    share = min(1.0, max(0.0, 1 - (1 - sight.done) / standing.left))
    if share < _LEAST_SEEN:
        return share, max(1.0, passed / planned)
    return share, passed / share / planned


def is_off(pace: float, assumed: float) -> bool:
    return abs(pace / assumed - 1) > OFF


def left_after(standing: JobStanding, sight: Sight) -> float:
    """Return what is left of a job whose attempt was stopped: what it reported is saved, nothing else."""
    return standing.left if sight.done is None else min(standing.left, max(0.0, 1 - sight.done))


def _in_turn(jobs: Sequence[PlanJob], ledger: Ledger) -> list[tuple[PlanJob, Assignment]]:
    waiting = [
        (planned.start, place, job, planned)
        for place, job in enumerate(jobs)
        if (planned := ledger.jobs[job.name].planned) and ledger.jobs[job.name].stage is JobStage.WAITING
    ]
    return [(job, planned) for _, _, job, planned in sorted(waiting, key=lambda each: each[:2])]


def _may_start(job: PlanJob, ledger: Ledger) -> bool:
    return all(ledger.jobs[name].stage is JobStage.SUCCEEDED for name in job.depends_on)


def _place(assignment: Assignment) -> tuple[object, ...]:
    mode = assignment.mode
    return assignment.pool, mode.technique, mode.devices, assignment.placement
