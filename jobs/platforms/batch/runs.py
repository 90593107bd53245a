"""The jobs that AWS Batch knows, read into one form with their cost.

Whatever Batch leaves out is None here, and a word of its that we do not know is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from slipway.jobs.cloud.aws import reader
from slipway.jobs.platforms.batch.request import DIGEST_TAG, IMAGE_TAG, NODES_TAG, RECIPE_TAG, STATES
from slipway.jobs.words.cost import SECONDS_PER_HOUR, cost
from slipway.jobs.words.run import Attempt, Found, Listed, Run, catalogued
from slipway.jobs.words.states import translate
from slipway.jobs.words.targets import BatchTarget

# How the record of a job begins that was ended because another machine had sent the same one (twins.py).
TWIN_REASON = "submitted twice in the same instant; kept is"
MOST_DESCRIBED = 100  # ids in one DescribeJobs
# Any filter but one makes Batch list jobs of every status (API reference, ListJobs); this one keeps them all.
_EVERY_JOB = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]


def list_jobs(target: BatchTarget) -> list[Listed]:
    return [
        Listed(
            id=str(summary["jobId"]),
            name=str(summary.get("jobName", "")),
            is_twin=str(summary.get("statusReason", "")).startswith(TWIN_REASON),
        )
        for summary in _summaries(target)
    ]


def _has_queue(target: BatchTarget) -> bool:
    queues = reader("batch", target.region).describe_job_queues(jobQueues=[target.queue_arn])
    return bool(queues["jobQueues"])


def list_runs(target: BatchTarget) -> list[Run]:
    ids = [str(summary["jobId"]) for summary in _summaries(target)]
    return [read_run(detail, target) for detail in describe_jobs(target, ids)]


def unfinished_runs(target: BatchTarget) -> list[Run]:
    """Read the jobs that have not ended; none where a destroy that stopped half-way has deleted the queue."""
    return [run for run in list_runs(target) if not run.state.is_final] if _has_queue(target) else []


def refresh(job_id: str, target: BatchTarget) -> Found[BatchTarget] | None:
    for detail in describe_jobs(target, [job_id]):
        return Found(run=read_run(detail, target), target=target, detail=detail)
    return None


def is_known(job_id: str, target: BatchTarget) -> bool:
    return any(True for _ in describe_jobs(target, [job_id]))


def find_dependencies_of(run: Run, target: BatchTarget) -> list[Run]:
    """Return the jobs that it waits for, as far as AWS Batch still knows them."""
    return [read_run(detail, target) for detail in describe_jobs(target, run.depends_on)]


def describe_jobs(target: BatchTarget, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    batch = reader("batch", target.region)
    for start in range(0, len(ids), MOST_DESCRIBED):
        yield from batch.describe_jobs(jobs=list(ids[start : start + MOST_DESCRIBED])).get("jobs", [])


def read_run(detail: Mapping[str, Any], target: BatchTarget, now: datetime | None = None) -> Run:
    tags, container = detail.get("tags") or {}, detail.get("container") or {}
    status = str(detail.get("status", "unknown"))
    attempts = tuple(_read_attempt(attempt) for attempt in detail.get("attempts") or ())
    started, stopped = _moment(detail.get("startedAt")), _moment(detail.get("stoppedAt"))
    nodes = _nodes(detail, tags)
    state = translate(STATES, status)
    seconds = _seconds(attempts, started, stopped if state.is_final else (now or datetime.now(UTC)))
    kind = catalogued(target)
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
        hours=None if seconds is None else round(seconds / SECONDS_PER_HOUR, 4),
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
    """Return the number of nodes: by the tag of our own jobs, by the definition of others."""
    said = str(tags.get(NODES_TAG) or (detail.get("nodeProperties") or {}).get("numNodes", ""))
    return int(said) if said.isdecimal() else None


def _seconds(attempts: Sequence[Attempt], started: datetime | None, until: datetime | None) -> float | None:
    """Add up the ended attempts, and the running one that `started` belongs to."""
    spans = [(attempt.started_at, attempt.stopped_at) for attempt in attempts]
    if started is not None and started not in [begin for begin, _ in spans]:
        spans.append((started, until))
    if not spans:
        return 0.0 if until is not None and started is None else None
    if any(begin is None or end is None for begin, end in spans):
        return None
    return sum((end - begin).total_seconds() for begin, end in spans if begin and end)
