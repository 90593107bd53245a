"""All Batch jobs of this yard, and one lock for them, which is notified of every change."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from slipway.yard.endpoint import ACCOUNT

jobs: dict[str, BatchJob] = {}  # by id, in the order of submission
changed = threading.Condition(threading.RLock())


def now_ms() -> int:
    return int(time.time() * 1000)


def find(job_id: str) -> BatchJob | None:
    """Find a job by its own id, or by the id of an array's child or of a node."""
    return jobs.get(job_id.partition("#")[0])


def set_status(job: BatchJob, status: str, reason: str | None = None) -> None:
    """Set the status and its reason. The caller holds the lock."""
    job.status, job.status_reason, job.blocked_since = status, reason, None
    if status == "RUNNING" and job.started_at is None:
        job.started_at = now_ms()
    if status in FINAL:
        job.stopped_at = now_ms()
    changed.notify_all()


def wait_until_final(job_id: str, timeout_s: float) -> str:
    """Return the job's status once it has ended or the time is over."""
    with changed:
        changed.wait_for(lambda: job_id not in jobs or jobs[job_id].is_final, timeout_s)
        return jobs[job_id].status if job_id in jobs else "FORGOTTEN"


# The records of a job; change them only with the lock held.
WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
FINAL = ("SUCCEEDED", "FAILED")


class Stoppable(Protocol):
    """The processes of an attempt."""

    def stop(self) -> None: ...

    def kill(self, node: int) -> None: ...

    def kill_all(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class NodeRun:
    """One node's container in one attempt."""

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
    """A job, or one child of an array. Times are in milliseconds since the epoch, as on AWS."""

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
    instances: list[str] = field(default_factory=list)  # ids of its nodes' instances, while they exist
    has_silent_agents: bool = False  # the instances run, but no agent has registered with ECS
    stop_reason: str | None = None  # why it was stopped before its end
    is_cancelled: bool = False
    is_terminated: bool = False
    blocked_since: float | None = (
        None  # how long it has had this status_reason: start, on the monotonic clock
    )
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
        given = self.submit.get("retryStrategy") or self.definition.get("retryStrategy") or {}
        return {"attempts": 1, "evaluateOnExit": [], **given}

    @property
    def timeout_seconds(self) -> int | None:
        given = self.submit.get("timeout") or self.definition.get("timeout") or {}
        return given.get("attemptDurationSeconds")
