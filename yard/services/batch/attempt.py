"""Runs one attempt of a job, up to the last line of its log, and decides if another follows."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.endpoint import own_endpoint
from slipway.yard.machines import log_stream, memory, storage
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.batch import capacity, instances, job_store, overrides, plan, task_roles
from slipway.yard.services.batch.api import views
from slipway.yard.services.batch.attempt_processes import AttemptProcesses, NodeEvent
from slipway.yard.services.batch.job_store import BatchJob, JobAttempt, NodeRun

log = logging.getLogger(__name__)

EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
OVERRIDES_TOO_LONG = "Container Overrides length must be at most 8192"  # ASFHyP3/hyp3#3041
TIMED_OUT = "Job attempt duration exceeded timeout"


def start(job: BatchJob, environment: Any) -> None:
    """Start an attempt; the job is STARTING when this returns. The caller holds the lock."""
    nodes = [NodeRun(index=index, instance=instances.instance_of(job, index)) for index in range(job.nodes)]
    attempt = JobAttempt(number=len(job.attempts) + 1, nodes=nodes, environment=environment.arn)
    job.attempts.append(attempt)
    job_store.set_status(job, "STARTING")
    runner = threading.Thread(
        target=_run, args=(job, attempt, environment), name=f"job {job.id}", daemon=True
    )
    runner.start()


def _run(job: BatchJob, attempt: JobAttempt, environment: Any) -> None:
    folder = storage.attempt_folder(job.id, attempt.number)
    try:
        ending = _open_logs(job, attempt) or Running(job, attempt).run(environment, folder)
    except Exception as error:  # a bug of the yard ends the attempt, and no thread in silence
        log.exception("attempt %s of job %s crashed", attempt.number, job.id)
        ending = ContainerExit(
            status_reason=NOT_STARTED, exit_code=None, reason=f"{type(error).__name__}: {error}"
        )
    shutil.rmtree(folder, ignore_errors=True)
    memory.promises.release(job.id)
    with job_store.changed:
        attempt.stopped_at = job_store.now_ms()
        attempt.status_reason = ending.status_reason
        main = attempt.nodes[job.main_node]
        main.exit_code, main.reason = ending.exit_code, ending.reason
        job.running = None
        instances.terminate(job)
        if job.stop_reason:  # a terminated or timed-out job is not retried
            attempt.status_reason = job.stop_reason
            job_store.set_status(job, "FAILED", job.stop_reason)
        elif is_retried(ending, job.retry_strategy, len(job.attempts)):
            job_store.set_status(job, "RUNNABLE")
        else:
            job_store.set_status(job, "SUCCEEDED" if ending.succeeded else "FAILED", ending.status_reason)


def _open_logs(job: BatchJob, attempt: JobAttempt) -> ContainerExit | None:
    name = job.definition["jobDefinitionName"]
    if overrides.is_too_long(job.submit):
        return ContainerExit(status_reason=OVERRIDES_TOO_LONG, exit_code=None)
    if conditions.strikes("image-pull", "attempt"):
        image = capacity.containers(job)[job.main_node].get("image")
        reason = task_roles.UNREACHED.format(image=image)
        return ContainerExit(status_reason=NOT_STARTED, exit_code=None, reason=reason)
    for node, container in zip(attempt.nodes, capacity.containers(job), strict=True):
        node.group, node.stream = log_stream.place(container, name, node.task_id)
        if reason := task_roles.problem(container, node.group, node.stream, job.region):
            return ContainerExit(status_reason=NOT_STARTED, exit_code=None, reason=reason)
        if problem := log_stream.create(node.group, node.stream, job.region):
            reason = f"ResourceInitializationError: {problem}"
            return ContainerExit(status_reason=NOT_STARTED, exit_code=None, reason=reason)
    return None


class Running:
    """An attempt while it has processes; `TerminateJob` and `kill-node` act on it."""

    def __init__(self, job: BatchJob, attempt: JobAttempt) -> None:
        self.job, self.attempt = job, attempt
        self.processes: AttemptProcesses | None = None
        self.subnet = ""

    def run(self, environment: Any, folder: Path) -> ContainerExit:
        stage = plan.Stage(
            job=self.job, attempt=self.attempt, environment=environment, tier=best_tier(), folder=folder
        )
        self.subnet = next(iter((environment.compute_resources or {}).get("subnets") or ()), "")
        self.processes = AttemptProcesses(plan.write(stage), self.job.nodes)
        try:
            self._register()
            for event in self.processes.events():
                _SEEN[event.name](self, self.attempt.nodes[event.node], event)
        finally:
            with job_store.changed:
                self.job.running = None
            self.processes.close()
        main = self.attempt.nodes[self.job.main_node]
        if main.host_is_gone or main.exit_code is None:
            return ContainerExit(status_reason=HOST_GONE.format(instance=main.instance), exit_code=None)
        return ContainerExit(status_reason=EXITED, exit_code=main.exit_code, reason=main.reason)

    def stop(self) -> None:
        if self.processes:
            self.processes.stop()

    def kill(self, node: int) -> None:
        with job_store.changed:
            self.attempt.nodes[node].host_is_gone = True
            instances.lose(self.job, node)
        if self.processes:
            self.processes.kill(node)

    def kill_all(self) -> None:
        if self.processes:
            self.processes.signal(range(self.job.nodes), signal.SIGKILL)

    def _register(self) -> None:
        assert self.processes
        with job_store.changed:
            self.job.running = self
            job_store.changed.notify_all()
            if self.job.stop_reason:  # the job was stopped before it had processes
                self.processes.stop()
        if seconds := self.job.timeout_seconds:
            self.processes.later(real_seconds(seconds), self._time_out)

    def _time_out(self) -> None:
        with job_store.changed:
            self.job.stop_reason = self.job.stop_reason or TIMED_OUT
            self.stop()

    def forked(self, node: NodeRun, event: NodeEvent) -> None:
        (output,) = event.descriptors
        assert self.processes
        self.processes.read_by(log_stream.follow(output, node.group, node.stream, self.job.region))

    def ready(self, node: NodeRun, event: NodeEvent) -> None:
        assert self.processes
        self.processes.open_doors(event, own_endpoint(), self.subnet)
        with job_store.changed:
            node.started_at = job_store.now_ms()
            if node.index == self.job.main_node:
                self.attempt.started_at = node.started_at
                job_store.set_status(self.job, "RUNNING")

    def exited(self, node: NodeRun, event: NodeEvent) -> None:
        """End the job if this is the main node; Batch then ends the other nodes."""
        with job_store.changed:
            node.exit_code, node.stopped_at = event.code, job_store.now_ms()
            job_store.changed.notify_all()
            if node.index == self.job.main_node:
                self.stop()


_SEEN = {"forked": Running.forked, "ready": Running.ready, "exited": Running.exited}


# Decides if another attempt follows a failed one, as AWS Batch does (user guide, job retries).
HOST_GONE = "Host EC2 (instance {instance}) terminated."


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExit:
    """Says how the main node's container ended; None means not reported."""

    status_reason: str
    exit_code: int | None
    reason: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0


def is_retried(ending: ContainerExit, strategy: Mapping[str, Any], attempts_made: int) -> bool:
    if ending.succeeded or attempts_made >= strategy.get("attempts", 1):
        return False
    # The first rule that matches decides; if none does, the job is retried.
    rules = strategy.get("evaluateOnExit") or ()
    for rule in rules:
        said = {
            "onExitCode": None if ending.exit_code is None else str(ending.exit_code),
            "onReason": ending.reason,
            "onStatusReason": ending.status_reason,
        }
        conditions = {member: pattern for member, pattern in rule.items() if member in said}
        if all(views.like(said[member] or "", pattern) for member, pattern in conditions.items()):
            return bool(rule["action"].lower() == "retry")
    return True
