"""How long each rank takes for a step, and which take much longer than the rest: those are named, not ended.

A rank that waits in a collective for a slow one has as long a step as that: what tells them apart is the
part of a step that is a rank's own work (Step.own_seconds). Where a training does not say, whole steps are.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
