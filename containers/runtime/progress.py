"""Which ranks of this node still take steps, by the files that telemetry.py writes at each."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from containers.runtime.settings import Settings

_STARTING = "start"
_MOST_CHARACTERS = 200


@dataclass(slots=True)
class _Beat:
    content: str = ""
    seen: float = 0.0  # by our own clock, which no time server turns back


class Progress:
    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings
        self._beats: dict[int, _Beat] = {}

    def file_of(self, rank: int) -> Path:
        return self._folder / f"progress-{rank}"

    def stuck(self, ranks: list[int]) -> dict[int, str]:
        """Ranks without a step for too long, and where they were. One that never beats is not judged."""
        now = time.monotonic()
        return {rank: where for rank in ranks if (where := self._stuck(rank, now)) is not None}

    def _stuck(self, rank: int, now: float) -> str | None:
        content = ""
        with suppress(OSError):
            content = self.file_of(rank).read_text(errors="replace")[:_MOST_CHARACTERS]
        beat = self._beats.setdefault(rank, _Beat())
        if content != beat.content:
            beat.content, beat.seen = content, now
        where = beat.content.partition("\n")[0]
        limit = self._settings.start_seconds if where == _STARTING else self._settings.hang_seconds
        if not beat.content or not self._settings.hang_seconds or now - beat.seen <= limit:
            return None
        return "before its first step" if where == _STARTING else f"after step {where}"
