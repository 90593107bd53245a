"""Who may publish in a checkpoint folder: one attempt of one run at a time, and never an older one again.

No clock of another machine is believed: a lease lives while its file keeps changing before our eyes.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.containers.runtime.checkpoint.storage import LeaseFile
from slipway.containers.runtime.errors import Refusal

NAME = "LEASE.json"
DEFAULT_SECONDS = 30.0
_MOST_SECONDS = 600.0
MOST_BYTES = 4096
_RENEWALS = 5  # within one lifetime, so that a busy disk or interpreter does not look dead
_LOOKS = 20


class FolderInUse(Refusal):
    """Another job writes its checkpoints to this folder."""


class Fenced(Refusal):
    """A newer attempt has taken over: this one must not publish anything more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    run: str
    attempt: int
    nonce: str
    seconds: float  # after which, unrenewed, it is dead
    host: str
    processes: str  # the namespace in which `pid` means something
    pid: int

    def __str__(self) -> str:
        return f"run {self.run}, attempt {self.attempt}, process {self.pid} on {self.host}"


def this_process(run: str, attempt: int, seconds: float = DEFAULT_SECONDS) -> Holder:
    return Holder(
        run=run,
        attempt=attempt,
        nonce=secrets.token_hex(6),
        seconds=seconds,
        host=socket.gethostname(),
        processes=_process_namespace(),
        pid=os.getpid(),
    )


class Lease:
    """Hold a place for one attempt. It is taken on creation and renewed by a thread until it is released
    or lost."""

    def __init__(self, file: LeaseFile, holder: Holder, *, where: str) -> None:
        self.holder = holder
        self._file, self._where = file, where
        self._released = threading.Event()
        _take(file, holder, where)
        self._renewal = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._renewal.start()

    def check(self) -> None:
        """Raise Fenced if the lease is lost. Call it right before publishing: a new owner removes what we
        have not published first."""
        found = _read(self._file)
        if found is None or found.nonce != self.holder.nonce:
            by = found or "another, whose lease cannot be read"
            raise Fenced(f"{self._where} was taken over by {by}; nothing was published")

    def release(self) -> None:
        self._released.set()
        self._renewal.join()
        found = _read(self._file)
        if found is not None and found.nonce == self.holder.nonce:
            with suppress(OSError):
                self._file.remove()

    def _renew(self) -> None:
        while not self._released.wait(self.holder.seconds / _RENEWALS):
            found = _read(self._file)
            if found is not None and found.nonce != self.holder.nonce:
                return
            with suppress(OSError):
                self._file.renew()


def _take(file: LeaseFile, mine: Holder, where: str) -> None:
    content = json.dumps(asdict(mine)).encode()
    if file.create(content, mine.nonce):
        return
    if not _is_free(_read(file), mine, where):
        _wait_until_dead(file, mine, where)
    file.replace(content, mine.nonce)


def _is_free(found: Holder | None, mine: Holder, where: str) -> bool:
    if found is None:
        return False  # unreadable, so nobody knows whose: watch whether anyone renews it
    if found.run == mine.run and found.attempt > mine.attempt:
        raise Fenced(f"{where} belongs to {found}; this is attempt {mine.attempt}, and may not publish")
    if found.run == mine.run and found.attempt < mine.attempt:
        return True
    return found.processes == mine.processes and found.host == mine.host and not _is_alive(found.pid)


def _wait_until_dead(file: LeaseFile, mine: Holder, where: str) -> None:
    found, before = _read(file), file.stamp()
    patience = min(found.seconds, _MOST_SECONDS) if found else mine.seconds
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        time.sleep(patience / _LOOKS)
        if (now := file.stamp()) is None:
            return
        if now != before:
            raise FolderInUse(
                f"{where} is in use by {_read(file) or 'another job'}",
                hint="wait for it, cancel it, or name another checkpoint folder",
            )


def _read(file: LeaseFile) -> Holder | None:
    try:
        record = json.loads(file.read() or b"")
        return Holder(**record)
    except (OSError, ValueError, TypeError, Refusal):
        return None


def _process_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return secrets.token_hex(6)  # unknown, so like no other


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
