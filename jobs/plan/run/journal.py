"""Keep a plan's journal, the file of what was done: each event is written and synced before the next step."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from slipway.jobs.plan.search.model import Assignment, Mode, NodeDevices, PlanJob
from slipway.jobs.words.errors import SlipwayError

_MOST_BYTES = 1 << 28


class PlanIsRunning(SlipwayError):
    """Reports that another process runs this plan."""


class NoPlanJournal(SlipwayError):
    """Reports a journal that cannot be read or written: without it a job could run twice."""


class PlanJournal:
    """The journal file of one plan; `opened` locks it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    @contextmanager
    def opened(self) -> Iterator[list[HappenedEvent]]:
        """Lock the journal and yield its events; a last line that a crash cut short does not count."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PlanIsRunning(
                    f"another slipway runs the plan of {self.path}", hint="wait for it, or end it"
                ) from None
            except OSError as error:  # not every file system has locks
                raise self._unusable(error) from None
            self._file = file
            yield self._read(file)
        finally:
            self._file = None
            os.close(file)

    def write(self, event: HappenedEvent) -> None:
        assert self._file is not None, "the journal is open while a plan runs"
        line = f"{encode(event)}\n".encode()
        try:
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._unusable(error) from None

    def _read(self, file: int) -> list[HappenedEvent]:
        if (size := os.fstat(file).st_size) > _MOST_BYTES:
            raise NoPlanJournal(
                f"the journal {self.path} has {size >> 20} MiB; at most {_MOST_BYTES >> 20} are read",
                hint="nothing was submitted; plan what is left as plans of fewer jobs",
            )
        text = os.pread(file, size, 0)
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            os.ftruncate(file, len(whole))
        lines = whole.decode(errors="replace").splitlines()
        return [decode(line, f"{self.path}:{number}") for number, line in enumerate(lines, 1)]

    def _unusable(self, error: OSError) -> NoPlanJournal:
        return NoPlanJournal(
            f"the journal {self.path} cannot be used: {error.strerror}",
            hint="nothing more is submitted; make the file writable and run the plan again",
        )


# The events of a plan, one line of JSON each. To read them again restores all that is known of it.


class DamagedEvents(SlipwayError):
    """Reports a journal that cannot be parsed: what was done is unknown, so nothing more is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReplaced:
    """A plan became the current one: the first, or a new one for what is left."""

    at: float  # Unix seconds, as in all events
    why: str
    assignments: tuple[Assignment, ...]  # starts count from `at`


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptIntended:
    """An attempt of a job is about to be submitted; after a crash exactly this attempt is submitted."""

    at: float
    job: str
    attempt: int
    left: float  # the share of its work that is not saved
    assignment: Assignment

    def after(self, job: JobStanding) -> JobStanding:
        return replace(
            job,
            stage=JobStage.SENDING,
            attempt=self.attempt,
            left=self.left,
            run=None,
            sent_at=self.at,
            assignment=self.assignment,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSubmitted:
    at: float
    job: str
    run: str

    def after(self, job: JobStanding) -> JobStanding:
        return replace(job, stage=JobStage.RUNNING, run=self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStopping:
    """The attempt was asked to save and end, so that the job can go on elsewhere."""

    at: float
    job: str
    why: str

    def after(self, job: JobStanding) -> JobStanding:
        return replace(job, stage=JobStage.STOPPING, why=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    at: float
    job: str
    outcome: str  # succeeded, failed, stopped (to go on elsewhere) or withdrawn (by a person)
    left: float
    began: float | None  # when its processes started
    ratio: float = 1.0  # its time over the first estimate
    why: str = ""

    def after(self, job: JobStanding) -> JobStanding:
        assert job.assignment is not None
        stint = Stint(
            assignment=job.assignment,
            began=self.began or job.sent_at,
            ended=self.at,
            outcome=self.outcome,
        )
        return replace(
            job,
            stage=JobStage.WAITING if self.outcome == "stopped" else JobStage(self.outcome),
            left=self.left,
            ratios={**job.ratios, job.assignment.mode.type: self.ratio},
            assignment=None,
            why=self.why,
            stints=(*job.stints, stint),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSkipped:
    """A job will never run, since a job that it depends on failed."""

    at: float
    job: str
    why: str

    def after(self, job: JobStanding) -> JobStanding:
        return replace(job, stage=JobStage.SKIPPED, why=self.why)


HappenedEvent = (
    PlanReplaced | AttemptIntended | AttemptSubmitted | AttemptStopping | AttemptEnded | JobSkipped
)
_KINDS: Mapping[str, type[HappenedEvent]] = {
    "plan": PlanReplaced,
    "intent": AttemptIntended,
    "submission": AttemptSubmitted,
    "stopping": AttemptStopping,
    "end": AttemptEnded,
    "skip": JobSkipped,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode(event: HappenedEvent) -> str:
    return json.dumps({"event": _NAMES[type(event)], **asdict(event)}, allow_nan=False)


def decode(line: str, where: str) -> HappenedEvent:
    try:
        record = json.loads(line)
        kind = _KINDS[record.pop("event")]
        for name in ("assignments", "assignment"):
            if name in record:
                held = record[name]
                record[name] = tuple(map(_assignment, held)) if name == "assignments" else _assignment(held)
        return kind(**record)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DamagedEvents(
            f"{where} is no line of a plan's journal",
            hint="nothing was submitted; move the file away to begin again with what the clusters know",
        ) from None


def _assignment(record: Mapping[str, Any]) -> Assignment:
    mode = record["mode"]
    settings = tuple((str(name), str(value)) for name, value in mode["settings"])
    shares = tuple(
        NodeDevices(node=share["node"], devices=tuple(share["devices"])) for share in record["placement"]
    )
    return Assignment(**{**record, "mode": Mode(**{**mode, "settings": settings}), "placement": shares})


# The state of each job of a plan, computed only from its events.


class AnotherPlan(SlipwayError):
    """Reports a journal that belongs to another plan."""

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
    """One attempt as it really ran, for the drawing."""

    assignment: Assignment
    began: float
    ended: float
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    stage: JobStage = JobStage.WAITING
    attempt: int = 0
    left: float = 1.0
    ratios: Mapping[str, float] = field(default_factory=dict)  # by instance type: its time over the estimate
    run: str | None = None
    sent_at: float = 0.0
    assignment: Assignment | None = None  # of the current attempt
    planned: Assignment | None = None  # in the current plan
    why: str = ""
    stints: tuple[Stint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    jobs: Mapping[str, JobStanding]
    began: float = 0.0  # when the first plan began
    plans: int = 0

    @property
    def is_over(self) -> bool:
        return all(job.stage.is_final for job in self.jobs.values())


def what_ran(ledger: Ledger, now: float) -> Iterator[Assignment]:
    """Yield where and when each attempt ran; attempts that still run end now."""
    for job in ledger.jobs.values():
        for stint in job.stints:
            yield _as_it_was(stint.assignment, ledger, stint.began, stint.ended)
        if job.assignment:
            yield _as_it_was(job.assignment, ledger, job.sent_at, now)


def _as_it_was(planned: Assignment, ledger: Ledger, began: float, ended: float) -> Assignment:
    start = max(0, round(began - ledger.began))
    return replace(planned, start=start, seconds=max(1, round(ended - ledger.began) - start))


def new_ledger(jobs: Iterable[PlanJob], events: Iterable[HappenedEvent] = ()) -> Ledger:
    ledger, standings = Ledger(jobs={}), {job.name: JobStanding() for job in jobs}
    for event in events:
        if isinstance(event, PlanReplaced):
            ledger = after(replace(ledger, jobs=standings), event)
            standings = dict(ledger.jobs)
        elif event.job in standings:
            standings[event.job] = event.after(standings[event.job])
        else:
            raise AnotherPlan(
                f"the journal has a job '{event.job}' that the plan has not",
                hint="run the plan that it belongs to, or name another journal",
            )
    return replace(ledger, jobs=standings)


def after(ledger: Ledger, event: HappenedEvent) -> Ledger:
    """Return the ledger after one more event."""
    if isinstance(event, PlanReplaced):
        planned = {each.job: each for each in event.assignments}
        jobs = {name: replace(job, planned=planned.get(name)) for name, job in ledger.jobs.items()}
        began = ledger.began if ledger.plans else event.at
        return Ledger(jobs=jobs, began=began, plans=ledger.plans + 1)
    job = event.after(ledger.jobs[event.job])
    return replace(ledger, jobs={**ledger.jobs, event.job: job})
