"""Run commands and requests in the account, keep them as evidence, and stop when the time is over."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slipway.jobs.cloud.aws import client, is_in_yard, reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Names one request or command by which somebody else can check a claim."""

    what: str
    request_id: str
    at: str  # ISO 8601, UTC


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


ROOT = Path(__file__).resolve().parents[2]
_LAST_LINES = 12
_GRACE_SECONDS = 30.0
_POLL_SECONDS = 2.0
_POLL_SECONDS_ON_AWS = 15.0


class CommandFailed(Exception):
    """Reports a command whose exit code was not the expected one."""


class TimeIsOver(Exception):
    """Reports that the agreed hours are over."""


class Interrupted(BaseException):
    """Reports that somebody asked the run to end, by Ctrl-C or SIGTERM."""


@dataclass(slots=True, kw_only=True)
class Account:
    """Runs commands as a user would, and asks AWS with the same credentials."""

    number: str
    region: str
    email: str
    ends_at: float  # of time.monotonic()
    log: Path
    evidence: list[Evidence] = field(default_factory=list)  # of the claim that is being tried

    @property
    def is_yard(self) -> bool:
        return is_in_yard()

    def run(self, *command: str, fails: bool = False, folder: Path = ROOT) -> str:
        """Run a command and return its output; raise if it fails, or if `fails` is set and it succeeds."""
        self.refuse_overtime()
        done = run_logged(command, self.log, self.region, self.ends_at, folder)
        code = done.returncode
        self.evidence.append(Evidence(what=" ".join(command), request_id=f"exit code {code}", at=now()))
        if (code != 0) is not fails:
            said = f"{done.stdout}\n{done.stderr}".strip().splitlines()
            raise CommandFailed(f"`{' '.join(command)}` ended with {code}: " + "\n".join(said[-_LAST_LINES:]))
        return done.stdout

    def succeeds(self, *command: str) -> bool:
        """Run a command; return False if it fails."""
        try:
            self.run(*command)
        except CommandFailed:
            return False
        return True

    def data(self, *command: str) -> Any:
        """Return what a command prints as JSON."""
        return json.loads(self.run(*command, "--json"))

    def ask(self, service: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        return self._request(reader(service, self.region), service, operation, arguments)

    def order(self, service: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Send a request that changes something."""
        return self._request(client(service, self.region), service, operation, arguments)

    def wait_until(self, what: str, is_so: Callable[[], bool], minutes: float) -> None:
        end = time.monotonic() + 60 * minutes
        while not is_so():
            self.refuse_overtime()
            if time.monotonic() > end:
                raise CommandFailed(f"{what}: not within {minutes:g} minutes")
            time.sleep(_POLL_SECONDS if self.is_yard else _POLL_SECONDS_ON_AWS)

    def refuse_overtime(self) -> None:
        if time.monotonic() > self.ends_at:
            raise TimeIsOver("the hours that were agreed to are over")

    def _request(
        self, asked: Any, service: str, operation: str, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        from botocore import xform_name

        self.refuse_overtime()
        answer: Mapping[str, Any] = getattr(asked, xform_name(operation))(**arguments)
        told = answer["ResponseMetadata"].get("RequestId", "none")
        self.evidence.append(Evidence(what=f"{service}:{operation}", request_id=told, at=now()))
        return answer


def run_logged(
    command: tuple[str, ...], log: Path, region: str, ends_at: float, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run in its own session, so that Ctrl-C reaches only us; end it with us or when time is over."""
    environment = {**os.environ, "AWS_REGION": region, "AWS_DEFAULT_REGION": region, "NO_COLOR": "1"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        left = None if math.isinf(ends_at) else max(0.0, ends_at - time.monotonic())
        out, err = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        _end(process)
        raise TimeIsOver(f"the hours that were agreed to were over in `{' '.join(command)}`") from None
    except BaseException:
        _end(process)
        raise
    with log.open("a", encoding="utf-8") as file:
        file.write(f"\n$ {' '.join(command)}\n{out}{err}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_GRACE_SECONDS)
    process.kill()
    process.wait()
