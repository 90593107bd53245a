"""Runs SSM's commands on hosts, and keeps their states and output.

yard/services/ssm/api.py has their views in the API.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from slipway.yard.machines import log_stream, memory
from slipway.yard.machines.hosts import host_store
from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.ssm import documents
from slipway.yard.services.ssm.documents import DocumentStep

FINAL = ("Success", "Failed", "Cancelled", "TimedOut")
MOST_OUTPUT = 24_000  # characters that GetCommandInvocation shows
KILLED_CODE = 137  # 128 + SIGKILL
END_S = 6.0  # until a killed step has ended
DRAIN_S = 2.0  # for processes that a command left running to close its output
READ_BYTES = 1 << 16
LOOK_AGAIN_S = 0.5  # while too little memory is free
DELAYED = "Delayed"  # status detail of an invocation that has not reached its instance yet


@dataclass(slots=True, kw_only=True)
class StepOutcome:
    """The result of one step on one instance."""

    name: str
    action: str
    status: str = "Pending"
    code: int = -1
    started_at: datetime | None = None
    ended_at: datetime | None = None
    output: dict[str, bytes] = field(default_factory=lambda: {"stdout": b"", "stderr": b""})

    def text(self, stream: str) -> str:
        return self.output[stream].decode(errors="replace")[:MOST_OUTPUT]


@dataclass(slots=True, kw_only=True)
class Invocation:
    """A command's run on one instance."""

    command: Command
    instance: str
    outcomes: list[StepOutcome]
    status: str = "Pending"
    details: str = "Pending"
    cancelled: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)  # set when the running step has ended
    code: int | None = None  # of the ended step; None: the host is gone
    may_log: bool = False  # the host's role allows it


@dataclass(slots=True, kw_only=True)
class Command:
    region: str
    sent: Mapping[str, Any]  # the parameters of SendCommand
    steps: Sequence[DocumentStep]
    version: str
    log_group: str  # "": no output to CloudWatch
    need: memory.Need | None = None  # the memory that is reserved before it begins
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    requested_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    invocations: dict[str, Invocation] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """Return the worst status of the invocations once all have ended."""
        states = [invocation.status for invocation in self.invocations.values()]
        if any(state not in FINAL for state in states):
            return "Pending" if set(states) == {"Pending"} else "InProgress"
        return next((state for state in ("Cancelled", "TimedOut", "Failed") if state in states), "Success")


commands: dict[str, Command] = {}  # by id, in the order in which they were sent
_running: dict[str, Invocation] = {}  # the host's name for a step -> its invocation
_lock = threading.RLock()


def send(command: Command, instances: Sequence[str]) -> None:
    with _lock:
        commands[command.id] = command
        for instance in instances:
            outcomes = [StepOutcome(name=step.name, action=step.action) for step in command.steps]
            invocation = Invocation(command=command, instance=instance, outcomes=outcomes)
            command.invocations[instance] = invocation
            threading.Thread(target=_run, args=(invocation,), daemon=True).start()


def cancel(command: Command, instances: Sequence[str]) -> None:
    for instance, invocation in command.invocations.items():
        if (not instances or instance in instances) and invocation.status not in FINAL:
            with _lock:  # checked before each step
                invocation.cancelled.set()
            _kill(invocation)
            with _lock:
                runs = any(running is invocation for running in _running.values())
            if not runs:  # its host is gone and will not report
                invocation.answered.set()


def _ended(name: str, code: int | None) -> None:
    """Record a step's end. If its host is gone, the step stays InProgress until its timeout, as on AWS."""
    with _lock:
        invocation = _running.pop(name, None)
    if invocation and code is not None:
        invocation.code = code
        invocation.answered.set()


def reset() -> None:
    with _lock:
        for command in commands.values():
            for invocation in command.invocations.values():
                invocation.answered.set()
        _running.clear()
        commands.clear()


def _run(invocation: Invocation) -> None:
    command, output = invocation.command, invocation.outcomes[0].output
    while command.need and not memory.promises.admit(_holder(invocation), command.need):
        invocation.details, output["stderr"] = DELAYED, memory.WAITS.encode()
        if invocation.cancelled.wait(LOOK_AGAIN_S) or command.id not in commands:
            break
    output["stderr"] = b""
    try:
        invocation.status = invocation.details = "InProgress"
        for step, outcome in zip(invocation.command.steps, invocation.outcomes, strict=True):
            status = _run_step(invocation, step, outcome)
            if status != "Success":
                break
        details = "ExecutionTimedOut" if status == "TimedOut" else status
        invocation.status, invocation.details = status, details
    finally:
        memory.promises.release(_holder(invocation))


def _holder(invocation: Invocation) -> str:
    return f"{invocation.command.id}/{invocation.instance}"


def _run_step(invocation: Invocation, step: DocumentStep, outcome: StepOutcome) -> str:
    outcome.started_at, outcome.status = datetime.now(UTC), "InProgress"
    readers = _start(invocation, step, outcome)
    is_in_time = invocation.answered.wait(real_seconds(step.timeout_s))
    if not is_in_time:
        _kill(invocation)
        invocation.answered.wait(END_S)
    until = time.monotonic() + DRAIN_S
    for reader in readers:
        reader.join(max(0.0, until - time.monotonic()))
    outcome.ended_at = datetime.now(UTC)
    is_cancelled, code = invocation.cancelled.is_set(), invocation.code
    if code is not None and code < 0:  # a signal ended it; the agent has a code for its own alone
        code = KILLED_CODE if is_cancelled or not is_in_time else -1
    outcome.code = -1 if code is None else code
    if is_cancelled:
        outcome.status = "Cancelled"
    elif is_in_time:
        outcome.status = "Success" if code == 0 else "Failed"
    else:
        outcome.status = "TimedOut"
    return outcome.status


def _start(invocation: Invocation, step: DocumentStep, outcome: StepOutcome) -> list[threading.Thread]:
    """Start the step, and return the threads that read its two streams."""
    invocation.answered.clear()
    invocation.code = None
    host = host_store.hosts.get(invocation.instance)
    name = f"{invocation.command.id}/{invocation.instance}/{step.name}"
    with _lock:
        if invocation.cancelled.is_set() or host is None or host.link is None:
            invocation.answered.set()
            return []
        _running[name] = invocation
        host.end_callbacks[name] = partial(_ended, name)
    (output, out), (errors, err) = os.pipe(), os.pipe()
    argv = tuple(host.said(word) for word in step.run.argv)
    host.link.command(name, replace(step.run, argv=argv), (out, err))
    for each in (out, err):
        os.close(each)
    streams = {"stdout": output, "stderr": errors}
    threads = [
        threading.Thread(target=_read, args=(invocation, outcome, stream, descriptor), daemon=True)
        for stream, descriptor in streams.items()
    ]
    for thread in threads:
        thread.start()
    return threads


def _kill(invocation: Invocation) -> None:
    """Kill the step's process group without a warning, as the agent does (its executers_unix.go)."""
    host = host_store.hosts.get(invocation.instance)
    with _lock:
        names = [name for name, each in _running.items() if each is invocation]
    for name in names:
        if host and host.link:
            host.link.signal(name, signal.SIGKILL)


def _read(invocation: Invocation, outcome: StepOutcome, stream: str, descriptor: int) -> None:
    rest = b""
    with os.fdopen(descriptor, "rb", buffering=0) as output:
        while chunk := output.read(READ_BYTES):
            outcome.output[stream] = (outcome.output[stream] + chunk)[: 4 * MOST_OUTPUT]  # bytes of UTF-8
            *lines, rest = (rest + chunk).split(b"\n")
            _to_cloudwatch(invocation, outcome, stream, lines)
    _to_cloudwatch(invocation, outcome, stream, [rest])


def _to_cloudwatch(invocation: Invocation, outcome: StepOutcome, stream: str, lines: list[bytes]) -> None:
    """Write lines to CloudWatch; make group and stream, named as by the agent, for the first line."""
    command = invocation.command
    if not command.log_group or not any(lines):
        return
    step = outcome.name.replace(" ", "-").replace(":", "-")
    name = f"{command.id}/{invocation.instance}/{step}/{stream}"
    if (host := host_store.hosts.get(invocation.instance)) and not invocation.may_log:
        if not documents.may_log(host, command.log_group, name):
            return
        invocation.may_log = True
    log_stream.make(command.log_group, name, command.region)
    log_stream.put(lines, command.log_group, name, command.region)
