"""Tell which ranks hang or are slow, by the heartbeat that each writes at every step."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.contract.settings import Settings

# How long each rank takes for a step, and which take much longer than the rest: those are named, not ended.
# A rank that waits in a collective for a slow one has as long a step as that: what tells them apart is the
# part of a step that is a rank's own work (Step.own_seconds). Where a training does not say, whole steps are.
_STEPS = 10  # of a rank, before it is compared; more than half of them must be slow
_RATIO = 1.5
_LEAST_SECONDS = 0.01  # more than the median: below that it is noise
_NANOSECONDS = 1e9
_MOST_NAMED = 20


@dataclass(slots=True)
class Pace:
    """Measure one rank's pace from what it writes at each step."""

    _samples: deque[float] = field(default_factory=lambda: deque(maxlen=_STEPS))
    _last: tuple[int, float, float] | None = None  # step, clock, own seconds so far

    def note(self, content: str) -> None:
        where, clock, own = [*content.split("\n"), "", ""][:3]
        try:
            now = int(where), int(clock) / _NANOSECONDS, float(own or 0.0)
        except ValueError:
            return  # not at a step
        if self._last is not None and now[0] > self._last[0]:
            at = 2 if own else 1
            self._samples.append((now[at] - self._last[at]) / (now[0] - self._last[0]))
        self._last = now

    def seconds(self) -> float | None:
        return statistics.median(self._samples) if len(self._samples) == _STEPS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankNode:
    """Name the node that a rank runs on."""

    node: int
    host: str


class Stragglers:
    """Compare the pace of all ranks. Runs on the main node."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._paces: dict[int, float] = {}
        self._places: dict[int, RankNode] = {}
        self._named: dict[int, str] = {}

    def hear(self, place: RankNode, paces: Mapping[int, float]) -> None:
        self._paces |= paces
        self._places |= dict.fromkeys(paces, place)

    def compare(self) -> None:
        """Warn about each slow rank once; the report has its last pace."""
        if len(self._paces) < 2:
            return
        usual = statistics.median_low(self._paces.values())
        limit = max(_RATIO * usual, usual + _LEAST_SECONDS)
        for rank, seconds in self._paces.items():
            if seconds <= limit:
                continue
            is_new = rank not in self._named
            self._named[rank] = self._described(rank, seconds, usual)
            if is_new:
                self._say(f"warning: {self._named[rank]}")

    def report(self) -> list[str]:
        """Return one line per slow rank of the whole job, for its end."""
        lines = [self._named[rank] for rank in sorted(self._named)]
        more = len(lines) - _MOST_NAMED
        return lines[:_MOST_NAMED] + ([f"and {more} more ranks were slow"] if more > 0 else [])

    def _described(self, rank: int, seconds: float, usual: float) -> str:
        place = self._places[rank]
        return (
            f"rank {rank} on node {place.node} ({place.host}) is slow: {seconds:.3f} s a step, "
            f"{seconds / max(usual, 1e-9):.1f} × the median of {len(self._paces)} ranks ({usual:.3f} s)"
        )


_MOST_CHARACTERS = 2000  # more than a heartbeat writes


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


# The heartbeat of a rank: a small file that says where it is, which its launcher reads (progress.py).
# Three lines: where, a clock that all of the machine share, and the seconds of its own work so far, if known.
STARTING = "start"
SAVING = "saving "  # and where to: a save has a patience of its own
WAITING = "waiting for the other ranks to save "
_MOST_BEAT_CHARACTERS = 1000
_BEAT_SECONDS = 1.0  # between two beats from one place


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
        self._where = " ".join(where.splitlines())[:_MOST_BEAT_CHARACTERS]
        self._own_seconds += own_seconds or 0.0
        self._write()

    def again(self) -> None:
        """Show that something moves at the same place. May be called as often as one likes."""
        if time.monotonic() - self._last >= _BEAT_SECONDS:
            self._write()

    def _write(self) -> None:
        self._last = time.monotonic()
        if self._path is None:
            return
        own = f"{self._own_seconds:.6f}" if self._own_seconds else ""
        content = f"{self._where}\n{time.monotonic_ns()}\n{own}".encode(errors="replace")
        try:
            fresh = self._path.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(self._path)
        except OSError:  # a full disk, say: a launcher that sees no beat would take this rank for stuck
            # To write over the last beat takes no room on a disk that has none.
            with suppress(OSError), self._path.open("r+b", buffering=0) as file:
                file.write(content)
                file.truncate()
