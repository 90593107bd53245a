"""The heartbeat of a rank: a small file that says where it is, which its launcher reads (progress.py).

Three lines: where, a clock that all of the machine share, and the seconds of its own work so far, if known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from slipway.containers.runtime.contract import variables

STARTING = "start"
SAVING = "saving "  # and where to: a save has a patience of its own
WAITING = "waiting for the other ranks to save "
_MOST_CHARACTERS = 1000
_LEAST_SECONDS = 1.0  # between two beats from one place


class Heartbeat:
    """Write where this rank is to a file. Without a file this is a no-op: no launcher is watching."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._where = STARTING
        self._own_seconds = 0.0
        self._last = 0.0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Heartbeat:
        """Return the heartbeat that the launcher asked for in the environment."""
        given = environment.get(variables.PROGRESS_FILE)
        return cls(Path(given) if given else None)

    def at(self, where: str, own_seconds: float | None = None) -> None:
        """Say where the rank is now, and how many seconds of its own work it has done since."""
        self._where = " ".join(where.splitlines())[:_MOST_CHARACTERS]
        self._own_seconds += own_seconds or 0.0
        self._write()

    def again(self) -> None:
        """Show that something moves at the same place. May be called as often as one likes."""
        if time.monotonic() - self._last >= _LEAST_SECONDS:
            self._write()

    def _write(self) -> None:
        self._last = time.monotonic()
        if self._path is None:
            return
        own = f"{self._own_seconds:.6f}" if self._own_seconds else ""
        with suppress(OSError):
            fresh = self._path.with_suffix(".new")
            fresh.write_text(
                f"{self._where}\n{time.monotonic_ns()}\n{own}", encoding="utf-8", errors="replace"
            )
            fresh.replace(self._path)
