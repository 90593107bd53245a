"""A save beside the training: a thread writes, hashes and publishes, and its end is asked for, never told.

The thread leaves the rank's heartbeat alone: only who waits for the save shows where it stands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from slipway.containers.runtime.observe.heartbeat import Heartbeat

_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Tell what a save that worked has done."""

    step: int
    seconds: float


@dataclass(slots=True)
class SaveProgress:
    """Hold where a save stands, and how often it has moved."""

    where: str = ""
    moves: int = 0

    def at(self, where: str) -> None:
        self.where = where
        self.moves += 1

    def moved(self) -> None:
        self.moves += 1


class BackgroundSave:
    """Run one save in a thread from now on."""

    def __init__(self, step: int, save: Callable[[], None], progress: SaveProgress) -> None:
        self.step = step
        self._save = save
        self._progress = progress
        self._began = time.monotonic()
        self._seconds = 0.0
        self._failure: BaseException | None = None
        self._over = threading.Event()
        threading.Thread(target=self._run, name=f"saving step {step}", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def wait(self, beat: Heartbeat) -> Saved:
        """Wait for the end, and show where the save stands; raise what it failed with."""
        seen = ""
        moves = self._progress.moves
        while not self._over.wait(_LOOK_SECONDS):
            if self._progress.where != seen:
                seen = self._progress.where
                beat.at(seen)
            elif self._progress.moves != moves:
                beat.again()
            moves = self._progress.moves
        if self._failure is not None:
            raise self._failure
        return Saved(step=self.step, seconds=self._seconds)

    def _run(self) -> None:
        try:
            self._save()
        except BaseException as error:  # noqa: BLE001  # whatever it is, it belongs to who waits
            self._failure = error
        self._seconds = time.monotonic() - self._began
        self._over.set()
