"""Writes the log of a job: every line to Slurm's file on shared files, and to CloudWatch Logs."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts

_STDOUT = 1


class JobLog:
    def __init__(self, facts: SlurmNodeFacts, stream: str) -> None:
        self._shipping: LogShipping | None = None
        if facts.log_group and facts.region:
            region = facts.region
            self._shipping = LogShipping(lambda: _client(region), facts.log_group, stream, _print)

    def say(self, line: str) -> None:
        _print(line)
        if self._shipping is not None:
            self._shipping.ship(line)

    def close(self) -> None:
        if self._shipping is not None:
            self._shipping.close()


def _print(line: str) -> None:
    """Print a line; a disk that is full costs the log this line, and never the job that prints it."""
    rest = f"{line}\n".encode(errors="backslashreplace")
    with suppress(OSError):
        while rest:  # one write, or the lines of two threads would mix
            rest = rest[os.write(_STDOUT, rest) :]


def _client(region: str) -> Any:
    from slipway.jobs.cloud.aws import client

    return client("logs", region)


# Sends a job's output to CloudWatch Logs, where `slipway logs` reads it. The log on shared files is always
# complete: a slow, denied or missing destination costs the training only these lines, and the log says so
# once.
_EVERY_SECONDS = 2.0
_MOST_WAITING = 20_000  # lines
_MOST_EVENTS, _MOST_BYTES = 10_000, 900_000  # of one PutLogEvents (API reference: 10,000 and 1,048,576)
_EVENT_BYTES = 26  # besides its text
_LONGEST_LINE = 200_000
_CLOSE_SECONDS = 10.0
_END = None

Event = tuple[int, str]


class LogShipping:
    """Sends lines in the order in which they are given; `ship` never waits."""

    def __init__(
        self,
        connect: Callable[[], Any],
        group: str,
        stream: str,
        say: Callable[[str], None],
        every_seconds: float = _EVERY_SECONDS,
    ) -> None:
        self._connect, self._group, self._stream, self._say = connect, group, stream, say
        self._every_seconds = every_seconds
        self._waiting: queue.Queue[Event | None] = queue.Queue(_MOST_WAITING)
        self._lost = 0
        self._has_said = False
        self._thread = threading.Thread(target=self._run, name="log shipping", daemon=True)
        self._thread.start()

    def ship(self, line: str) -> None:
        try:
            self._waiting.put_nowait((int(time.time() * 1000), line[:_LONGEST_LINE] or " "))
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        with suppress(queue.Full):
            self._waiting.put(_END, timeout=_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)
        if self._lost:
            self._say(f"[run] warning: {self._lost} lines are in this file and not in CloudWatch Logs")

    def _run(self) -> None:
        client, is_over = None, False
        while not is_over:
            events, is_over = self._collect()
            if not events:
                continue
            try:
                client = client or self._open()
                for batch in batches(events):
                    client.put_log_events(
                        logGroupName=self._group,
                        logStreamName=self._stream,
                        logEvents=[{"timestamp": moment, "message": text} for moment, text in batch],
                    )
            except Exception as error:  # noqa: BLE001  # whatever the sink says, the training goes on
                self._lost += len(events)
                if not self._has_said:
                    self._has_said = True
                    self._say(
                        f"[run] warning: CloudWatch Logs does not take this log ({str(error)[:200]}); "
                        "it is whole in this file"
                    )

    def _open(self) -> Any:
        client = self._connect()
        with suppress(client.exceptions.ResourceAlreadyExistsException):
            client.create_log_stream(logGroupName=self._group, logStreamName=self._stream)
        return client

    def _collect(self) -> tuple[list[Event], bool]:
        """Return the lines that came meanwhile, and whether those were all."""
        events: list[Event] = []
        ends = time.monotonic() + self._every_seconds
        while (left := ends - time.monotonic()) > 0:
            with suppress(queue.Empty):
                event = self._waiting.get(timeout=left)
                if event is _END:
                    return events, True
                events.append(event)
        return events, False


def batches(events: list[Event]) -> list[list[Event]]:
    """Split events into pieces that one call accepts."""
    found: list[list[Event]] = [[]]
    size = 0
    for event in events:
        own = len(event[1].encode()) + _EVENT_BYTES
        if found[-1] and (len(found[-1]) >= _MOST_EVENTS or size + own > _MOST_BYTES):
            found.append([])
            size = 0
        found[-1].append(event)
        size += own
    return found
