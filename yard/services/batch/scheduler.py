"""Moves jobs from state to state, in one thread that acts on changes and timeouts.

To add a rule for a state: a branch of _advance.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from slipway.yard.errors import going_on
from slipway.yard.machines import memory
from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.batch import attempt, capacity, instances, job_store
from slipway.yard.services.batch.api import views
from slipway.yard.services.batch.job_store import WAITING, BatchJob
from slipway.yard.services.events import bus

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.5  # for waiting jobs: queues and environments change without notice
DEPENDENCY_FAILED = "Dependent Job failed"
QUEUE_GONE = "The job queue was deleted"
CANCELED = "Canceled by JobStateTimeLimit action due to reason: {}"

_started = threading.Lock()  # the first caller takes it forever


def ensure_running() -> None:
    if _started.acquire(blocking=False):
        threading.Thread(target=_schedule, name="batch scheduler", daemon=True).start()


def stop(job: BatchJob, reason: str) -> None:
    """Stop a job: a waiting one ends at once, a running one is told to end. The caller holds the lock."""
    if job.is_final:
        return
    job.stop_reason = job.stop_reason or reason
    for child in job.children:
        stop(child, reason)
    if job.running:
        job.running.stop()
    elif job.status in WAITING and not job.children:
        instances.terminate(job)
        job_store.set_status(job, "FAILED", job.stop_reason)


def _schedule() -> None:
    while True:
        with job_store.changed:
            pause_s: float | None = LOOK_AGAIN_S
            with going_on(log, "the scheduler crashed and will try again"):
                pause_s = _look_at_all()
            job_store.changed.wait(pause_s)


def _look_at_all() -> float | None:
    """Advance all jobs; return the seconds until the next look without a change, None if no job waits."""
    blocked_queues: set[tuple[str, str]] = set()
    active = [job for job in job_store.jobs.values() if not job.is_final]
    for job in active:
        if capacity.queue_of(job) is None:
            stop(job, QUEUE_GONE)
        elif job.children:
            _sum_up(job)
        else:
            _advance(job, blocked_queues)
    return LOOK_AGAIN_S if active else None


def _advance(job: BatchJob, blocked_queues: set[tuple[str, str]]) -> None:
    if job.status in ("SUBMITTED", "PENDING"):
        _depend(job)
    if job.status != "RUNNABLE" or (job.region, job.queue) in blocked_queues:
        return
    if not _place(job):
        blocked_queues.add((job.region, job.queue))  # first come, first served


def _depend(job: BatchJob) -> None:
    waited_for = []
    for dependency in job.submit.get("dependsOn", ()):
        other = job_store.find(dependency["jobId"]) if "jobId" in dependency else None
        if dependency.get("type") == "SEQUENTIAL" and job.parent and job.index:
            waited_for.append(job.parent.children[job.index - 1])  # the child before
        elif other and dependency.get("type") == "N_TO_N" and other.children and job.index is not None:
            waited_for.append(other.children[job.index])  # the same index of another array
        elif other:
            waited_for.append(other)
    if any(other.status == "FAILED" for other in waited_for):
        job_store.set_status(job, "FAILED", DEPENDENCY_FAILED)
    elif all(other.status == "SUCCEEDED" for other in waited_for):
        job_store.set_status(job, "RUNNABLE")
    elif job.status != "PENDING":
        job_store.set_status(job, "PENDING")


def _sum_up(job: BatchJob) -> None:
    """Set an array's status: PENDING while its children run, FAILED if one of them failed."""
    if not all(child.is_final for child in job.children):
        if job.status == "SUBMITTED":
            job_store.set_status(job, "PENDING")
        return
    failed = any(child.status == "FAILED" for child in job.children)
    reason = job.stop_reason or ("Array Child Job FAILED" if failed else None)
    job_store.set_status(job, "FAILED" if failed else "SUCCEEDED", reason)


def _place(job: BatchJob) -> bool:
    """Return True if the job was started or cancelled; otherwise it waits, with the reason."""
    verdict = capacity.place(job)
    if verdict.environment is not None:
        reason = _start(job, verdict.environment)
        if reason is None:
            return True
        verdict = capacity.Placement(reason=reason)
    if verdict.reason != job.status_reason:
        job.status_reason = verdict.reason
        job.blocked_since = time.monotonic() if verdict.reason else None
        if verdict.reason and verdict.reason != memory.WAITS:  # a reason that AWS does not have
            event = bus.ServiceEvent(
                source="aws.batch",
                detail_type="Batch Job Queue Blocked",
                region=job.region,
                resources=(job.arn, job.queue),
                detail=views.detail(job),
            )
            bus.emit(event)
        job_store.changed.notify_all()
    if verdict.reason and _is_over_time(job, verdict.reason):
        stop(job, CANCELED.format(verdict.reason.partition(" ")[0]))
    return job.is_final


def _start(job: BatchJob, environment: Any) -> str | None:
    """Start the job; if it must wait for memory on this machine or for instances, return the reason."""
    if not memory.promises.admit(job.id, capacity.memory_need(job)):
        return memory.WAITS
    reason = instances.launch(job, environment)
    if reason:
        memory.promises.release(job.id)
        return reason
    attempt.start(job, environment)
    return None


def _is_over_time(job: BatchJob, reason: str) -> bool:
    """Return True if the job has waited past its queue's time limit for this reason, if it has one."""
    assert job.blocked_since is not None, "a job that waits with a reason has blocked_since"
    waited_s = time.monotonic() - job.blocked_since
    limits = getattr(capacity.queue_of(job), "state_time_limits", [])
    return any(
        reason.startswith(limit["reason"]) and waited_s >= real_seconds(limit["maxTimeSeconds"])
        for limit in limits
    )
