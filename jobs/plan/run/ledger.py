"""Where each job of a plan stands: the sum of its events, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from slipway.jobs.plan.run.events import (
    AttemptEnded,
    AttemptIntended,
    AttemptStopping,
    AttemptSubmitted,
    HappenedEvent,
    JobSkipped,
    PlanReplaced,
)
from slipway.jobs.plan.search.model import Assignment, PlanJob
from slipway.jobs.words.errors import SlipwayError


class AnotherPlan(SlipwayError):
    """Reports a journal of other jobs than the plan's."""

    exit_code = 2


class JobStage(StrEnum):
    WAITING = "waiting"
    SENDING = "sending"  # nobody knows yet whether the cluster has it
    RUNNING = "running"  # the cluster has it
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    SKIPPED = "skipped"

    @property
    def is_final(self) -> bool:
        return self in (JobStage.SUCCEEDED, JobStage.FAILED, JobStage.WITHDRAWN, JobStage.SKIPPED)

    @property
    def is_held(self) -> bool:
        """Return True while the job holds its devices."""
        return self in (JobStage.SENDING, JobStage.RUNNING, JobStage.STOPPING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint:
    """One attempt as it was, for the picture of what happened."""

    assignment: Assignment
    began: float
    ended: float
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    stage: JobStage = JobStage.WAITING
    attempt: int = 0
    left: float = 1.0
    ratio: float = 1.0
    run: str | None = None
    sent_at: float = 0.0
    assignment: Assignment | None = None  # of the attempt
    planned: Assignment | None = None  # of the plan in force
    why: str = ""
    stints: tuple[Stint, ...] = ()

    @property
    def measured_on(self) -> str | None:
        """Return the instance type that the ratio was measured on."""
        return self.stints[-1].assignment.mode.type if self.stints else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    jobs: Mapping[str, JobStanding]
    began: float = 0.0  # when the first plan came into force
    since: float = 0.0  # when this one did
    plans: int = 0

    @property
    def is_over(self) -> bool:
        return all(job.stage.is_final for job in self.jobs.values())


def what_ran(ledger: Ledger, now: float) -> Iterator[Assignment]:
    """Yield each attempt where and when it was, those that go on until now."""
    for job in ledger.jobs.values():
        for stint in job.stints:
            yield _as_it_was(stint.assignment, ledger, stint.began, stint.ended)
        if job.assignment:
            yield _as_it_was(job.assignment, ledger, job.sent_at, now)


def _as_it_was(planned: Assignment, ledger: Ledger, began: float, ended: float) -> Assignment:
    start = max(0, round(began - ledger.began))
    return replace(planned, start=start, seconds=max(1, round(ended - ledger.began) - start))


def new_ledger(jobs: Iterable[PlanJob], events: Iterable[HappenedEvent] = ()) -> Ledger:
    ledger = Ledger(jobs={job.name: JobStanding() for job in jobs})
    for event in events:
        if not isinstance(event, PlanReplaced) and event.job not in ledger.jobs:
            raise AnotherPlan(
                f"the journal has a job '{event.job}' that the plan has not",
                hint="run the plan that it belongs to, or name another journal",
            )
        ledger = after(ledger, event)
    return ledger


def after(ledger: Ledger, event: HappenedEvent) -> Ledger:
    """Return the ledger with one event more."""
    if isinstance(event, PlanReplaced):
        planned = {each.job: each for each in event.assignments}
        jobs = {name: replace(job, planned=planned.get(name)) for name, job in ledger.jobs.items()}
        began = ledger.began if ledger.plans else event.at
        return Ledger(jobs=jobs, began=began, since=event.at, plans=ledger.plans + 1)
    job = _after(ledger.jobs[event.job], event)
    return replace(ledger, jobs={**ledger.jobs, event.job: job})


def _after(
    job: JobStanding, event: AttemptIntended | AttemptSubmitted | AttemptStopping | AttemptEnded | JobSkipped
) -> JobStanding:
    if isinstance(event, AttemptIntended):
        return replace(
            job,
            stage=JobStage.SENDING,
            attempt=event.attempt,
            left=event.left,
            ratio=job.ratio if job.measured_on == event.assignment.mode.type else 1.0,
            run=None,
            sent_at=event.at,
            assignment=event.assignment,
        )
    if isinstance(event, AttemptSubmitted):
        return replace(job, stage=JobStage.RUNNING, run=event.run)
    if isinstance(event, AttemptStopping):
        return replace(job, stage=JobStage.STOPPING, why=event.why)
    if isinstance(event, JobSkipped):
        return replace(job, stage=JobStage.SKIPPED, why=event.why)
    assert job.assignment is not None
    stint = Stint(
        assignment=job.assignment,
        began=event.began or job.sent_at,
        ended=event.at,
        outcome=event.outcome,
    )
    stage = JobStage.WAITING if event.outcome == "stopped" else JobStage(event.outcome)
    return replace(
        job,
        stage=stage,
        left=event.left,
        ratio=event.ratio,
        assignment=None,
        why=event.why,
        stints=(*job.stints, stint),
    )
