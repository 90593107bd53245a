"""The instances of one launch while their containers run, and their logs."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slipway.yard.chaos import conditions
from slipway.yard.endpoint import own_endpoint
from slipway.yard.machines import log_stream
from slipway.yard.machines.settings import real_seconds
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import roles
from slipway.yard.permissions.calls.asked import ActionNeed, arn
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.services.batch.attempt_processes import AttemptProcesses, NodeEvent
from slipway.yard.services.sagemaker.training import plan, records
from slipway.yard.services.sagemaker.training.plan import TrainingLaunch
from slipway.yard.services.sagemaker.training.records import TrainingJob

GRACE_S = 120.0  # "SageMaker sends the SIGTERM signal, which delays job termination for 120 seconds"
STOPPED, TIMED_OUT, INTERRUPTED, LOST = "stopped", "timed out", "interrupted", "lost"
_INTERRUPTIONS = "spot-interruptions"


@dataclass(slots=True, kw_only=True)
class LaunchEnding:
    """Says how the containers ended, and why, if they were stopped."""

    cause: str = ""  # STOPPED, TIMED_OUT, INTERRUPTED or LOST
    codes: dict[int, int] = field(default_factory=dict)  # instance -> exit code

    def is_success(self, instances: int) -> bool:
        return len(self.codes) == instances and not any(self.codes.values())

    @property
    def first_failure(self) -> int | None:
        """Return the instance whose container failed first."""
        return next((index for index, code in self.codes.items() if code), None)


class Instances:
    def __init__(self, launch: TrainingLaunch, logs: Mapping[int, InstanceLog]) -> None:
        self.launch, self.job, self.logs = launch, launch.job, logs
        self.processes = AttemptProcesses(plan.write(launch), launch.job.instances)
        self.ending = LaunchEnding()

    def run(self, seconds_left: float) -> LaunchEnding:
        """Wait until every container has ended."""
        try:
            self._register(seconds_left)
            for event in self.processes.events():
                self._see(event)
        finally:
            with records.changed:
                self.job.running = None
            self.processes.close()
        return self.ending

    def stop(self) -> None:
        self._end(STOPPED)

    def interrupt(self) -> None:
        """Stop the containers as EC2 does when it reclaims Spot instances."""
        if self.job.is_spot:
            self._end(INTERRUPTED)

    def lose(self, index: int) -> None:
        """Kill one instance; SageMaker then kills the others without a signal to their containers."""
        with records.changed:
            self.ending.cause = self.ending.cause or LOST
        self.processes.kill(index)

    def kill_all(self) -> None:
        self.processes.signal(range(self.job.instances), signal.SIGKILL)

    def _register(self, seconds_left: float) -> None:
        with records.changed:
            self.job.running = self
            if self.job.is_stopping:  # the job was stopped before it had processes
                self.stop()
        self.processes.later(real_seconds(seconds_left), self._end, TIMED_OUT)
        if self.job.is_spot and (seconds := conditions.seconds(_INTERRUPTIONS, self.job.instance_type)):
            self.processes.later(seconds, self._strike)

    def _strike(self) -> None:
        conditions.count(_INTERRUPTIONS)
        self.interrupt()

    def _end(self, cause: str) -> None:
        """Send SIGTERM to every container's first process, and SIGKILL after the grace period."""
        with records.changed:
            self.ending.cause = self.ending.cause or cause
        everything = range(self.job.instances)
        self.processes.signal(everything, signal.SIGTERM)
        self.processes.later(real_seconds(GRACE_S), self.processes.signal, everything, signal.SIGKILL)

    def _see(self, event: NodeEvent) -> None:
        if event.name == "forked":
            (output,) = event.descriptors
            self.processes.read_by(self.logs[event.node].follow(output))
        elif event.name == "ready":
            subnets = (self.job.given.get("VpcConfig") or {}).get("Subnets") or [""]
            self.processes.open_doors(event, own_endpoint(), subnets[0])
        elif event.name == "exited":
            assert event.code is not None, "an exited node has an exit code"
            self.ending.codes[event.node] = event.code
            if event.code:  # one failure fails the job; SageMaker ends the other instances
                self.kill_all()


# An instance's log: a stream of /aws/sagemaker/TrainingJobs, named as SageMaker does, JOB/algo-N-SECONDS, and
# the metrics in its lines. A job whose role may not write logs has none.
log = logging.getLogger(__name__)

GROUP = "/aws/sagemaker/TrainingJobs"
_WRITES = ("CreateLogGroup", "CreateLogStream", "PutLogEvents")
_READ_BYTES = 1 << 16


class InstanceLog:
    def __init__(self, job: TrainingJob, host: str, session: RoleSession) -> None:
        self.job = job
        self.stream = ""
        self.patterns = [
            (definition["Name"], re.compile(definition["Regex"]))
            for definition in job.given["AlgorithmSpecification"].get("MetricDefinitions") or ()
        ]
        resource = arn("logs", job.region, f"log-group:{GROUP}:log-stream:{job.name}/{host}")
        needs = [ActionNeed(action=f"logs:{act}", resource=resource) for act in _WRITES]
        if words := roles.refused(session, job.region, needs):
            log.warning("training job %s has no log: %s", job.name, words)
        else:
            # Make the stream, and the group if there is none; each launch has its own stream.
            backend = moto_backend("logs", job.region)
            if GROUP not in backend.groups:
                backend.create_log_group(GROUP, {})
            seconds = int(time.time())
            while (name := f"{job.name}/{host}-{seconds}") in backend.groups[GROUP].streams:
                seconds += 1
            backend.create_log_stream(GROUP, name)
            self.stream = name

    def follow(self, descriptor: int) -> threading.Thread:
        """Write the output to the log, on a thread, until every writer has closed it."""
        thread = threading.Thread(target=self._follow, args=(descriptor,), daemon=True)
        thread.start()
        return thread

    def say(self, line: str) -> None:
        self._put([line.encode()])

    def _follow(self, descriptor: int) -> None:
        rest = b""
        with os.fdopen(descriptor, "rb", buffering=0) as output:
            while chunk := output.read(_READ_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                self._put(lines)
        self._put([rest])

    def _put(self, lines: Sequence[bytes]) -> None:
        if self.stream:
            log_stream.put(list(lines), GROUP, self.stream, self.job.region)
        for line in lines if self.patterns else ():
            self._measure(line.decode(errors="replace"))

    def _measure(self, line: str) -> None:
        for name, pattern in self.patterns:
            found = pattern.search(line)
            try:
                value = float(found[1]) if found else None
            except (IndexError, TypeError, ValueError):  # the pattern has no group, or finds no number
                value = None
            if value is not None:
                with records.changed:
                    self.job.metrics[name] = (value, datetime.now(UTC))
