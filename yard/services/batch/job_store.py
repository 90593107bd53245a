"""All jobs of this yard, and the one lock around them; whoever changes something tells the others."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from slipway.yard.endpoint import ACCOUNT

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


# What the yard's Batch knows of a job. Whoever changes a record holds the lock.
ACTIVE = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")
WAITING = ACTIVE[:3]
FINAL = ("SUCCEEDED", "FAILED")


class Stoppable(Protocol):
    """The processes of an attempt."""

    def stop(self) -> None: ...

    def kill(self, node: int) -> None: ...

    def kill_all(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class NodeRun:
    """One container of one attempt."""

    index: int
    group: str = ""
    stream: str = ""
    task_id: str = field(default_factory=lambda: secrets.token_hex(16))
    instance: str = ""  # EC2's id
    exit_code: int | None = None
    reason: str | None = None
    started_at: int | None = None
    stopped_at: int | None = None
    host_is_gone: bool = False


@dataclass(slots=True, kw_only=True)
class JobAttempt:
    number: int
    nodes: list[NodeRun]
    environment: str  # the compute environment's ARN
    started_at: int | None = None
    stopped_at: int | None = None
    status_reason: str | None = None


@dataclass(slots=True, kw_only=True)
class BatchJob:
    """A job, or one child of an array. Times are as AWS has them, in milliseconds."""

    id: str
    region: str
    name: str
    queue: str  # ARN
    definition: Mapping[str, Any]
    submit: Mapping[str, Any]
    created_at: int
    node_properties: Mapping[str, Any] | None = None
    container: Mapping[str, Any] | None = None
    status: str = "SUBMITTED"
    status_reason: str | None = None
    started_at: int | None = None
    stopped_at: int | None = None
    attempts: list[JobAttempt] = field(default_factory=list)
    running: Stoppable | None = None
    instances: list[str] = field(default_factory=list)  # of its nodes, while it has them
    has_silent_agents: bool = False  # they run, and no agent has registered with ECS
    stop_reason: str | None = None  # why it was told to end before it had
    is_cancelled: bool = False
    is_terminated: bool = False
    blocked_since: float | None = None  # on the monotonic clock, with this status_reason
    parent: BatchJob | None = None
    index: int | None = None
    children: list[BatchJob] = field(default_factory=list)

    @property
    def arn(self) -> str:
        return f"arn:aws:batch:{self.region}:{ACCOUNT}:job/{self.id}"

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def nodes(self) -> int:
        return int(self.node_properties["numNodes"]) if self.node_properties else 1

    @property
    def main_node(self) -> int:
        return int(self.node_properties["mainNode"]) if self.node_properties else 0

    @property
    def retry_strategy(self) -> Mapping[str, Any]:
        own = self.submit.get("retryStrategy") or self.definition.get("retryStrategy") or {}
        return {"attempts": 1, "evaluateOnExit": [], **own}

    @property
    def timeout_seconds(self) -> int | None:
        given = self.submit.get("timeout") or self.definition.get("timeout") or {}
        return given.get("attemptDurationSeconds")
