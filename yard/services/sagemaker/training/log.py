"""The log of one instance: a stream of /aws/sagemaker/TrainingJobs, and the metrics that stand in its lines.

Streams are named as SageMaker names them, JOB/algo-N-SECONDS. A job whose role may not write logs has none.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.machines import log_stream
from slipway.yard.permissions import roles
from slipway.yard.permissions.calls.asked import ActionNeed, arn
from slipway.yard.permissions.sessions import RoleSession
from slipway.yard.services.sagemaker.training import records
from slipway.yard.services.sagemaker.training.records import TrainingJob

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
            self.stream = _open(job, host)

    def follow(self, descriptor: int) -> threading.Thread:
        """Write down what comes, until nobody can print any more."""
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
            if (found := pattern.search(line)) and (value := _number(found)) is not None:
                with records.changed:
                    self.job.metrics[name] = (value, datetime.now(UTC))


def _number(found: re.Match[str]) -> float | None:
    try:
        return float(found[1])
    except (IndexError, TypeError, ValueError):
        return None


def _open(job: TrainingJob, host: str) -> str:
    """Make the stream, and the group where there is none; each launch has a stream of its own."""
    from moto.logs.models import logs_backends

    backend = logs_backends[ACCOUNT][job.region]
    if GROUP not in backend.groups:
        backend.create_log_group(GROUP, {})
    seconds = int(time.time())
    while (name := f"{job.name}/{host}-{seconds}") in backend.groups[GROUP].streams:
        seconds += 1
    backend.create_log_stream(GROUP, name)
    return name
