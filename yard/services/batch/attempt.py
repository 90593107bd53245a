"""One attempt of a job, from the first process to the last line of its log, and what comes after it."""

from __future__ import annotations

import logging
import shutil
import signal
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slipway.yard.machines import api_proxy, log_stream, memory, storage
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.batch import book, capacity, plan
from slipway.yard.services.batch.attempt_processes import Event, Gang
from slipway.yard.services.batch.records import Attempt, Job, NodeRun
from slipway.yard.services.batch.retries import HOST_GONE, Ending, is_retried

log = logging.getLogger(__name__)

EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
TIMED_OUT = "Job attempt duration exceeded timeout"


def start(job: Job, environment: Any) -> None:
    """The lock is held. The job is STARTING when this returns."""
    nodes = [NodeRun(index=index) for index in range(job.nodes)]
    attempt = Attempt(number=len(job.attempts) + 1, nodes=nodes, environment=environment.arn)
    job.attempts.append(attempt)
    book.set_status(job, "STARTING")
    runner = threading.Thread(
        target=_run, args=(job, attempt, environment), name=f"job {job.id}", daemon=True
    )
    runner.start()


def _run(job: Job, attempt: Attempt, environment: Any) -> None:
    folder = storage.attempt_folder(job.id, attempt.number)
    try:
        ending = _open_logs(job, attempt) or Running(job, attempt).run(environment, folder)
    except Exception as error:
        log.exception("attempt %s of job %s crashed", attempt.number, job.id)
        ending = Ending(status_reason=NOT_STARTED, exit_code=None, reason=f"{type(error).__name__}: {error}")
    shutil.rmtree(folder, ignore_errors=True)
    memory.promises.release(job.id)
    with book.changed:
        _finish(job, attempt, ending)


def _open_logs(job: Job, attempt: Attempt) -> Ending | None:
    name = job.definition["jobDefinitionName"]
    for node, container in zip(attempt.nodes, capacity.containers(job), strict=True):
        node.group, node.stream = log_stream.place(container, name, node.task_id)
        if problem := log_stream.create(node.group, node.stream, job.region):
            reason = f"ResourceInitializationError: {problem}"
            return Ending(status_reason=NOT_STARTED, exit_code=None, reason=reason)
    return None


class Running:
    """The attempt while it has processes: what `TerminateJob` and `kill-node` reach."""

    def __init__(self, job: Job, attempt: Attempt) -> None:
        self.job, self.attempt = job, attempt
        self.gang: Gang | None = None
        self.readers: list[threading.Thread] = []
        self.doors: list[socket.socket] = []

    def run(self, environment: Any, folder: Path) -> Ending:
        stage = plan.Stage(
            job=self.job, attempt=self.attempt, environment=environment, tier=best_tier(), folder=folder
        )
        self.gang = Gang(plan.write(stage), self.job.nodes)
        try:
            self._register()
            for event in self.gang.events():
                self._see(event)
        finally:
            with book.changed:
                self.job.running = None
            self.gang.close()
            self._close_doors()
        return self._ending()

    def stop(self) -> None:
        if self.gang:
            self.gang.stop()

    def kill(self, node: int) -> None:
        with book.changed:
            self.attempt.nodes[node].host_is_gone = True
        if self.gang:
            self.gang.kill(node)

    def kill_all(self) -> None:
        if self.gang:
            self.gang.signal(range(self.job.nodes), signal.SIGKILL)

    def _register(self) -> None:
        assert self.gang
        with book.changed:
            self.job.running = self
            book.changed.notify_all()
            if self.job.stop_reason:  # it was told to end before there was anything to end
                self.gang.stop()
        if seconds := self.job.timeout_seconds:
            self.gang.later(real_seconds(seconds), self._time_out)

    def _time_out(self) -> None:
        with book.changed:
            self.job.stop_reason = self.job.stop_reason or TIMED_OUT
            self.stop()

    def _see(self, event: Event) -> None:
        node = self.attempt.nodes[event.node]
        _SEEN[event.name](self, node, event)

    def forked(self, node: NodeRun, event: Event) -> None:
        (output,) = event.descriptors
        self.readers.append(log_stream.follow(output, node.group, node.stream, self.job.region))

    def ready(self, node: NodeRun, event: Event) -> None:
        for descriptor in event.descriptors:
            door = socket.socket(fileno=descriptor)
            self.doors.append(door)
            api_proxy.serve(door, urlsplit(plan.endpoint()).port or 0)
        with book.changed:
            node.started_at = book.now_ms()
            if node.index == self.job.main_node:
                self.attempt.started_at = node.started_at
                book.set_status(self.job, "RUNNING")

    def exited(self, node: NodeRun, event: Event) -> None:
        """Only the main node's end is the job's. Batch then ends the others, as it ends any container."""
        with book.changed:
            node.exit_code, node.stopped_at = event.code, book.now_ms()
            book.changed.notify_all()
            if node.index == self.job.main_node:
                self.stop()

    def _close_doors(self) -> None:
        for reader in self.readers:  # every writer is gone, so these end by themselves
            reader.join()
        for door in self.doors:
            api_proxy.close(door)

    def _ending(self) -> Ending:
        main = self.attempt.nodes[self.job.main_node]
        if main.host_is_gone or main.exit_code is None:
            return Ending(status_reason=HOST_GONE.format(instance=main.instance), exit_code=None)
        return Ending(status_reason=EXITED, exit_code=main.exit_code, reason=main.reason)


_SEEN = {"forked": Running.forked, "ready": Running.ready, "exited": Running.exited}


def _finish(job: Job, attempt: Attempt, ending: Ending) -> None:
    """The lock is held."""
    attempt.stopped_at = book.now_ms()
    attempt.status_reason = ending.status_reason
    main = attempt.nodes[job.main_node]
    main.exit_code, main.reason = ending.exit_code, ending.reason
    job.running = None
    if job.stop_reason:  # a job that was terminated or timed out is not tried again
        attempt.status_reason = job.stop_reason
        book.set_status(job, "FAILED", job.stop_reason)
    elif is_retried(ending, job.retry_strategy, len(job.attempts)):
        book.set_status(job, "RUNNABLE")
    else:
        book.set_status(job, "SUCCEEDED" if ending.succeeded else "FAILED", ending.status_reason)
