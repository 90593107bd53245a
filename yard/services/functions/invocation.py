"""Runs one invocation of a function in its own process, with the rights of its role, and writes its log."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from slipway.yard.endpoint import own_endpoint
from slipway.yard.errors import ApiError
from slipway.yard.machines import log_stream
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import roles
from slipway.yard.permissions.calls.asked import ActionNeed, arn
from slipway.yard.services.batch.attempt_processes import AttemptProcesses, NodeEvent
from slipway.yard.services.functions import plan
from slipway.yard.services.functions.plan import DeployedFunction, FunctionInvocation

SERVICE = "lambda.amazonaws.com"
AT_ONCE = 10  # AWS's quota "Concurrent executions" of a new account; further invocations wait here
LONGEST_START_S = 60.0  # real seconds, on top of the timeout, to start the process and import the module
TAIL_BYTES = 4096
_WRITES = ("CreateLogStream", "PutLogEvents")
_NODE = 0  # AttemptProcesses runs the nodes of a job; an invocation is its only node

_turns = threading.BoundedSemaphore(AT_ONCE)
_running: set[AttemptProcesses] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationResult:
    payload: bytes
    error: str  # "Unhandled", or "" if the handler returned
    tail: str  # the end of the log, in base64


def prepare(function: DeployedFunction, event: bytes, request_id: str) -> FunctionInvocation:
    """Return the invocation; raise ApiError if Lambda cannot assume the function's role."""
    try:
        session = roles.assume(function.role, SERVICE, function.name)
    except ApiError as error:
        message = "The role defined for the function cannot be assumed by Lambda."
        raise ApiError("AccessDeniedException", message, status=403) from error
    stream = f"{datetime.now(UTC):%Y/%m/%d}/[{function.version}]{uuid.uuid4().hex}"
    return FunctionInvocation(
        function=function,
        event=event,
        request_id=request_id,
        stream=stream,
        session=roles.in_vpc_of(session, function.subnet, function.region),
    )


def run(invocation: FunctionInvocation) -> InvocationResult:
    """Handle the event, and return once its process has ended."""
    with _turns:
        folder = Path(tempfile.mkdtemp(prefix="function-"))
        try:
            return _Run(invocation, folder).result()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def reset() -> None:
    """End all running invocations."""
    for processes in list(_running):
        processes.kill(_NODE)


class _Run:
    def __init__(self, invocation: FunctionInvocation, folder: Path) -> None:
        self.invocation, self.folder = invocation, folder
        self.code: int | None = None
        self.log = _FunctionLog(invocation)

    def result(self) -> InvocationResult:
        request_id = self.invocation.request_id
        self.log.say(f"START RequestId: {request_id} Version: {self.invocation.function.version}")
        processes = AttemptProcesses(plan.write(self.invocation, best_tier(), self.folder), 1)
        _running.add(processes)
        limit_s = self.invocation.function.timeout_s + LONGEST_START_S
        # The handler ends itself at its timeout (inside/handler.py); this is for one that does not.
        processes.later(limit_s, processes.signal, [_NODE], signal.SIGKILL)
        try:
            for event in processes.events():
                self._see(event, processes)
        finally:
            _running.discard(processes)
            processes.close()
        said = plan.result(self.folder)
        if not said:  # the process ended without a result
            message = f"RequestId: {request_id} Error: Runtime exited with error: exit status {self.code}"
            self.log.say(message)
            payload = json.dumps({"errorType": "Runtime.ExitError", "errorMessage": message})
            said = {"error": "Unhandled", "payload": payload}
        self.log.say(f"END RequestId: {request_id}")
        tail = base64.b64encode(self.log.tail).decode()
        return InvocationResult(payload=said["payload"].encode(), error=said["error"], tail=tail)

    def _see(self, event: NodeEvent, processes: AttemptProcesses) -> None:
        if event.name == "forked":
            (output,) = event.descriptors
            reader = threading.Thread(target=self.log.follow, args=(output,), daemon=True)
            reader.start()
            processes.read_by(reader)
        elif event.name == "exited":
            self.code = event.code
        elif event.name == "ready":
            processes.open_doors(event, own_endpoint(), self.invocation.function.subnet)


class _FunctionLog:
    """The invocation's log stream; it stays empty if the function's role may not write it."""

    def __init__(self, invocation: FunctionInvocation) -> None:
        self.group, self.stream = invocation.function.log_group, invocation.stream
        self.region, self.tail = invocation.function.region, b""
        self.is_open = not roles.refused(invocation.session, self.region, self._needs())
        if self.is_open:
            log_stream.make(self.group, self.stream, self.region)

    def _needs(self) -> Iterator[ActionNeed]:
        """Yield what the role must allow; making the log group only if there is none."""
        group = f"log-group:{self.group}:log-stream:"
        if self.group not in moto_backend("logs", self.region).groups:
            yield ActionNeed(action="logs:CreateLogGroup", resource=arn("logs", self.region, group))
        for act in _WRITES:
            yield ActionNeed(action=f"logs:{act}", resource=arn("logs", self.region, group + self.stream))

    def say(self, line: str) -> None:
        self._put([line.encode()])

    def follow(self, descriptor: int) -> None:
        """Log the function's output until every writer has closed it."""
        with os.fdopen(descriptor, "rb") as output:
            for line in output:
                self._put([line.rstrip(b"\n")])

    def _put(self, lines: list[bytes]) -> None:
        self.tail = (self.tail + b"".join(line + b"\n" for line in lines))[-TAIL_BYTES:]
        if self.is_open:
            log_stream.put(lines, self.group, self.stream, self.region)
