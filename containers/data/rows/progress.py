"""How far a preparation is, on stderr: one line rewritten on a terminal, else a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

TERMINAL_SECONDS = 0.5
PLAIN_SECONDS = 10.0
MB = 1e6


@dataclass(slots=True, kw_only=True)
class PreparationProgress:
    """Print how far a preparation has come."""

    name: str = "prepare_bert"
    total_bytes: int
    shards: int
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    now: Callable[[], float] = time.monotonic
    made_bytes: int = 0
    kept_bytes: int = 0
    finished_shards: int = 0
    started: float = field(init=False)
    told: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.told = self.now()

    def say(self, line: str) -> None:
        print(f"{self.name}: {line}", file=self.stream, flush=True)

    def made(self, count: int) -> None:
        self.made_bytes += count
        self._tell_if_due()

    def finished(self, number: int, text_bytes: int, was_kept: bool) -> None:
        self.finished_shards += 1
        if was_kept:
            self.kept_bytes += text_bytes
        self._tell_if_due()

    def end(self) -> None:
        if self.stream.isatty():
            self.stream.write("\r\x1b[K")
        kept = f", {self.kept_bytes / MB:.1f} MB of it made before" if self.kept_bytes else ""
        self.say(f"{self.line()}{kept}")

    def line(self) -> str:
        done, rate = self.made_bytes + self.kept_bytes, self.rate
        share = done / self.total_bytes if self.total_bytes else 1.0
        parts = [
            f"{share:.0%} of {self.total_bytes / MB:.1f} MB",
            f"{self.finished_shards}/{self.shards} shards",
            f"{rate / MB:.1f} MB/s",
        ]
        if done < self.total_bytes and rate:
            parts.append(f"{in_words((self.total_bytes - done) / rate)} left")
        return ", ".join(parts)

    @property
    def rate(self) -> float:
        """Return bytes per second of what is made now: what was kept took no time."""
        seconds = self.now() - self.started
        return self.made_bytes / seconds if seconds > 0 else 0.0

    def _tell_if_due(self) -> None:
        is_terminal = self.stream.isatty()
        if self.now() - self.told < (TERMINAL_SECONDS if is_terminal else PLAIN_SECONDS):
            return
        self.told = self.now()
        if is_terminal:
            self.stream.write(f"\r{self.name}: {self.line()}\x1b[K")
            self.stream.flush()
        else:
            self.say(self.line())


def in_words(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {whole % 60:02} s" if minutes else f"{whole} s"
