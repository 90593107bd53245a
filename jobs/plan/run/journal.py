"""The file beside a plan that says what was done: written and synced before anything else is done."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slipway.jobs.plan.run.events import HappenedEvent, decode, encode
from slipway.jobs.words.errors import SlipwayError

_MOST_BYTES = 1 << 28


class PlanIsRunning(SlipwayError):
    """Reports that another process runs this plan."""


class NoPlanJournal(SlipwayError):
    """Reports a journal that cannot be read or written: without it a job could run twice."""


class PlanJournal:
    """One file of one plan; `opened` keeps others away from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    @contextmanager
    def opened(self) -> Iterator[list[HappenedEvent]]:
        """Hold the journal, and give what it says; a line that a crash cut short never happened."""
        file = self._open()
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PlanIsRunning(
                    f"another slipway runs the plan of {self.path}", hint="wait for it, or end it"
                ) from None
            self._file = file
            yield self._read(file)
        finally:
            self._file = None
            os.close(file)

    def write(self, event: HappenedEvent) -> None:
        assert self._file is not None, "the journal is open while a plan runs"
        line = f"{encode(event)}\n".encode()
        try:
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._unusable(error) from None

    def _open(self) -> int:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            return os.open(self.path, flags, 0o600)
        except OSError as error:
            raise self._unusable(error) from None

    def _read(self, file: int) -> list[HappenedEvent]:
        text = os.pread(file, _MOST_BYTES, 0)
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            os.ftruncate(file, len(whole))
        lines = whole.decode(errors="replace").splitlines()
        return [decode(line, f"{self.path}:{number}") for number, line in enumerate(lines, 1)]

    def _unusable(self, error: OSError) -> NoPlanJournal:
        return NoPlanJournal(
            f"the journal {self.path} cannot be used: {error.strerror}",
            hint="nothing more is submitted; make the file writable and run the plan again",
        )
