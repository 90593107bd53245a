"""The jobs that the platform knows: found by id, name or prefix, and read into one form with their cost.

Whatever the platform leaves out is None here, and a word of its that we do not know is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs.aws import own_region, reader
from jobs.backends.batch import DIGEST_TAG, IMAGE_TAG, NODES_TAG, RECIPE_TAG, STATES
from jobs.core.cost import Cost, cost
from jobs.core.errors import SlipwayError
from jobs.core.instances import InstanceType, instance_types
from jobs.core.states import JobState, translate
from jobs.core.targets import BatchTarget
from jobs.deployed import batch_only, find_target_by_name, find_targets

# How the record of a job begins that was ended because another machine had sent the same one (jobs/twins.py).
TWIN_REASON = "submitted twice in the same instant; kept is"
MOST_DESCRIBED = 100  # ids in one DescribeJobs
_SHOWN_CANDIDATES = 5
# Any filter but one makes Batch list jobs of every status (API reference, ListJobs); this one keeps them all.
_EVERY_JOB = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]


class UnknownJob(SlipwayError):
    """No job that AWS Batch still lists, or more than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    started_at: datetime | None
    stopped_at: datetime | None
    exit_code: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    id: str
    name: str
    target: str
    region: str
    state: JobState
    status: str  # the platform's own word
    reason: str | None
    recipe: str | None
    nodes: int | None
    instance_type: str
    created_at: datetime | None
    started_at: datetime | None
    stopped_at: datetime | None
    attempts: tuple[Attempt, ...]  # those that ended
    exit_code: int | None
    image: str | None
    image_digest: str | None
    hours: float | None  # of all attempts, from the start of the job; nodes are billed a little longer
    cost: Cost
    depends_on: tuple[str, ...]  # ids of the jobs that have to succeed first


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    run: Run
    target: BatchTarget
    detail: Mapping[str, Any]  # as DescribeJobs gave it


def targets_to_search(on: str | None, region: str | None) -> list[BatchTarget]:
    """The named one; else all of your own region; else all where clusters are declared."""
    if on:
        return [batch_only(find_target_by_name(on, region))]
    own = region or own_region()
    found = _batch_targets(own) if own else []
    return found or ([] if region else _batch_targets(None))


def _batch_targets(region: str | None) -> list[BatchTarget]:
    return [target for target in find_targets(region)[0] if isinstance(target, BatchTarget)]


def list_runs(targets: Sequence[BatchTarget]) -> list[Run]:
    """The newest first."""
    found = [
        read_run(detail, target)
        for target in targets
        for detail in describe_jobs(target, [str(each["jobId"]) for each in _summaries(target)])
    ]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(found, key=lambda run: run.created_at or oldest, reverse=True)


def find_run(text: str, targets: Sequence[BatchTarget]) -> Found:
    """By its whole id, its whole name, or the beginning of either where only one job begins so."""
    every = [
        (each, target)
        for target in targets
        for each in _summaries(target)
        if each["jobId"] == text or not str(each.get("statusReason", "")).startswith(TWIN_REASON)
    ]
    exact = [pair for pair in every if text in (pair[0]["jobId"], pair[0].get("jobName"))]
    begin = [pair for pair in every if text and any(word.startswith(text) for word in _words(pair[0]))]
    chosen = exact or begin
    if len(chosen) != 1:
        raise _not_one(text, [summary for summary, _ in chosen], [summary for summary, _ in every])
    summary, target = chosen[0]
    return refresh(str(summary["jobId"]), target)


def refresh(job_id: str, target: BatchTarget) -> Found:
    for detail in describe_jobs(target, [job_id]):
        return Found(run=read_run(detail, target), target=target, detail=detail)
    raise UnknownJob(f"AWS Batch does not know job {job_id} any more", hint="slipway runs")


def describe_jobs(target: BatchTarget, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    batch = reader("batch", target.region)
    for start in range(0, len(ids), MOST_DESCRIBED):
        yield from batch.describe_jobs(jobs=list(ids[start : start + MOST_DESCRIBED])).get("jobs", [])


def read_run(detail: Mapping[str, Any], target: BatchTarget, now: datetime | None = None) -> Run:
    tags, container = detail.get("tags") or {}, detail.get("container") or {}
    status = str(detail.get("status", "unknown"))
    attempts = tuple(_read_attempt(each) for each in detail.get("attempts") or ())
    started, stopped = _moment(detail.get("startedAt")), _moment(detail.get("stoppedAt"))
    nodes = _nodes(detail, tags)
    state = translate(STATES, status)
    seconds = _seconds(attempts, started, stopped if state.is_final else (now or datetime.now(UTC)))
    kind = _instance_type(target)
    return Run(
        id=str(detail.get("jobId", "unknown")),
        name=str(detail.get("jobName", "unknown")),
        target=target.name,
        region=target.region,
        state=state,
        status=status,
        reason=detail.get("statusReason") or None,
        recipe=tags.get(RECIPE_TAG),
        nodes=nodes,
        instance_type=target.instance_type,
        created_at=_moment(detail.get("createdAt")),
        started_at=started,
        stopped_at=stopped,
        attempts=attempts,
        exit_code=container.get("exitCode", attempts[-1].exit_code if attempts else None),
        image=tags.get(IMAGE_TAG),
        image_digest=tags.get(DIGEST_TAG),
        hours=None if seconds is None else round(seconds / 3600, 4),
        cost=cost(nodes, seconds, kind.price if kind else None),
        depends_on=tuple(str(each["jobId"]) for each in detail.get("dependsOn") or () if each.get("jobId")),
    )


def _summaries(target: BatchTarget) -> list[Mapping[str, Any]]:
    pages = (
        reader("batch", target.region)
        .get_paginator("list_jobs")
        .paginate(jobQueue=target.queue_arn, filters=_EVERY_JOB)
    )
    return [each for page in pages for each in page.get("jobSummaryList", [])]


def _words(summary: Mapping[str, Any]) -> list[str]:
    return [str(summary["jobId"]), str(summary.get("jobName", ""))]


def _not_one(
    text: str, chosen: Sequence[Mapping[str, Any]], every: Sequence[Mapping[str, Any]]
) -> UnknownJob:
    names = [f"{each.get('jobName')} ({each['jobId']})" for each in (chosen or every)[:_SHOWN_CANDIDATES]]
    if chosen:
        return UnknownJob(f"{len(chosen)} jobs begin with '{text}'", hint=f"say which: {', '.join(names)} …")
    if names:
        return UnknownJob(f"no job is called '{text}' or begins so", hint=f"there are {', '.join(names)} …")
    return UnknownJob(f"no job is called '{text}': AWS Batch lists none", hint="slipway submit")


def _read_attempt(attempt: Mapping[str, Any]) -> Attempt:
    container = attempt.get("container") or {}
    return Attempt(
        started_at=_moment(attempt.get("startedAt")),
        stopped_at=_moment(attempt.get("stoppedAt")),
        exit_code=container.get("exitCode"),
        reason=container.get("reason") or attempt.get("statusReason") or None,
    )


def _moment(milliseconds: object) -> datetime | None:
    """Batch gives Unix milliseconds, and 0 or nothing for what has not happened."""
    if not isinstance(milliseconds, int | float) or milliseconds <= 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _nodes(detail: Mapping[str, Any], tags: Mapping[str, str]) -> int | None:
    """What was asked for; a job that somebody else sent has no tag, and what its definition says."""
    said = str(tags.get(NODES_TAG) or (detail.get("nodeProperties") or {}).get("numNodes", ""))
    return int(said) if said.isdecimal() else None


def _seconds(attempts: Sequence[Attempt], started: datetime | None, until: datetime | None) -> float | None:
    """Of the attempts that ended, and of the one that `started` tells of unless it is the last of those."""
    spans = [(each.started_at, each.stopped_at) for each in attempts]
    if started is not None and started not in [begin for begin, _ in spans]:
        spans.append((started, until))
    if not spans:
        return 0.0 if until is not None and started is None else None
    if any(begin is None or end is None for begin, end in spans):
        return None
    return sum((end - begin).total_seconds() for begin, end in spans if begin and end)


def _instance_type(target: BatchTarget) -> InstanceType | None:
    """A target may name a type that this laptop's catalogue has not."""
    return next((known for known in instance_types() if known.name == target.instance_type), None)
