"""Which ranks of this node still move, and how fast, by the heartbeat that they write at each step."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slipway.containers.runtime.contract.settings import Settings
from slipway.containers.runtime.observe.heartbeat import SAVING, STARTING, WAITING
from slipway.containers.runtime.observe.pace import Pace

_MOST_CHARACTERS = 2000  # more than heartbeat.py writes


@dataclass(slots=True)
class _Seen:
    content: str = ""
    at: float = 0.0  # by our own clock, which no time server turns back
    pace: Pace = field(default_factory=Pace)

    @property
    def where(self) -> str:
        return self.content.partition("\n")[0]


class Progress:
    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings
        self._seen: dict[int, _Seen] = {}

    def file_of(self, rank: int) -> Path:
        return self._folder / f"progress-{rank}"

    def look(self, ranks: Iterable[int]) -> None:
        now = time.monotonic()
        for rank in ranks:
            content = ""
            with suppress(OSError):
                content = self.file_of(rank).read_text(errors="replace")[:_MOST_CHARACTERS]
            seen = self._seen.setdefault(rank, _Seen())
            if content != seen.content:
                seen.content, seen.at = content, now
                seen.pace.note(content)

    def stuck(self, ranks: Iterable[int]) -> dict[int, str]:
        """Return the ranks that have not moved for too long, and where that was, as `look` found them.

        A rank that never sent a heartbeat is not judged.
        """
        now = time.monotonic()
        found = {}
        for rank in ranks:
            seen = self._seen.get(rank)
            if seen is not None and seen.content and now - seen.at > self._patience(seen.where):
                found[rank] = _described(seen.where)
        return found

    def paces(self) -> dict[int, float]:
        """Return the seconds per step of the ranks that have done enough steps."""
        known = {rank: seen.pace.seconds() for rank, seen in self._seen.items()}
        return {rank: seconds for rank, seconds in known.items() if seconds is not None}

    def _patience(self, where: str) -> float:
        settings = self._settings
        if not settings.hang_seconds:
            return float("inf")
        if where == STARTING:
            return settings.start_seconds
        if where.startswith(SAVING):
            return settings.save_seconds
        if where.startswith(WAITING):  # who is stuck itself is to be found first
            return max(settings.hang_seconds, settings.save_seconds)
        return settings.hang_seconds


def _described(where: str) -> str:
    if where == STARTING:
        return "before its first step"
    return f"after step {where}" if where.isdecimal() else f"while {where}"
