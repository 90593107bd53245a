"""All jobs of this yard, and the one lock around them; whoever changes something tells the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from slipway.yard.services.batch.records import FINAL, BatchJob

jobs: dict[str, BatchJob] = {}  # in the order in which they were submitted
changed = threading.Condition(threading.RLock())


def now_ms() -> int:
    return int(time.time() * 1000)


def find(job_id: str) -> BatchJob | None:
    """Find a job by its id, or by that of a child of an array or of a node."""
    return jobs.get(job_id.partition("#")[0])


def in_region(region: str) -> Iterator[BatchJob]:
    yield from (job for job in jobs.values() if job.region == region)


def set_status(job: BatchJob, status: str, reason: str | None = None) -> None:
    """The lock is held."""
    job.status, job.status_reason, job.blocked_since = status, reason, None
    if status == "RUNNING" and job.started_at is None:
        job.started_at = now_ms()
    if status in FINAL:
        job.stopped_at = now_ms()
    changed.notify_all()


def wait_until_final(job_id: str, timeout_s: float) -> str:
    """Its status when it has ended or the time is over."""
    with changed:
        changed.wait_for(lambda: job_id not in jobs or jobs[job_id].is_final, timeout_s)
        return jobs[job_id].status if job_id in jobs else "FORGOTTEN"
