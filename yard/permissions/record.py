"""What roles asked since the yard started: what they were refused, and what they used of their policies."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """An action that was refused; `statement` in `policy` would allow it."""

    caller: str
    role: str  # or the service that asked in its own name
    action: str
    resource: str
    reason: str
    policy: str
    statement: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Key:
    role: str
    action: str
    resource: str
    reason: str


_lock = threading.Lock()
_denied: dict[_Key, tuple[Denied, int, float]] = {}
_used: Counter[tuple[str, str]] = Counter()


def note_denied(denied: Denied) -> None:
    key = _Key(denied.role, denied.action, denied.resource, denied.reason)
    with _lock:
        times = _denied[key][1] if key in _denied else 0
        _denied[key] = (denied, times + 1, time.time())


def note_used(role: str, action: str) -> None:
    with _lock:
        _used[role, action] += 1


def denied() -> list[dict[str, object]]:
    """List what was refused, the latest last."""
    with _lock:
        rows = sorted(_denied.values(), key=lambda row: row[2])
    return [{**asdict(one), "times": times} for one, times, _ in rows]


def used(role: str) -> dict[str, int]:
    """Count the actions that this role was allowed."""
    with _lock:
        return {action: times for (owner, action), times in _used.items() if owner == role}


def reset() -> None:
    with _lock:
        _denied.clear()
        _used.clear()
