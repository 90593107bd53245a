"""Finds what a module must not leave in a shared yard, because a reset does not remove it."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from slipway.yard.endpoint import Yard, control

PATIENCE_S = 30.0  # the time for processes that a reset has told to end


def contents(yard: Yard, home: Path) -> Mapping[str, object]:
    """Return what is in a yard, by kind."""
    status = control(yard, "GET", "/status")
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    points = (line.split()[1] for line in mounts)
    return {
        "stacks": status["stacks"],
        "hosts": control(yard, "GET", "/hosts"),
        "faults": control(yard, "GET", "/faults"),
        "chaos": control(yard, "GET", "/switches"),
        "mounts": sorted(point for point in points if Path(point).is_relative_to(home)),
        "processes": processes_below(status["pid"]),
    }


def left_behind(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Describe the differences of each kind; return nothing if there are none."""
    return "; ".join(f"{kind}: {after[kind]}" for kind in before if after[kind] != before[kind])


def processes_below(process: int) -> list[str]:
    """Return the command lines of a process's descendants that do not end within our patience."""
    return sorted(_command(each) for each in _descendants(process) if not has_ended(each))


def _descendants(process: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            after_name = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
            parents.setdefault(int(after_name.split()[1]), []).append(int(path.parent.name))
    wanted = [process]
    while wanted:
        children = parents.get(wanted.pop(), [])
        yield from children
        wanted += children


def has_ended(process: int) -> bool:
    """Wait for a process, and return True if it ended within our patience."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    with os.fdopen(descriptor) as end:
        return bool(select.select([end], [], [], PATIENCE_S)[0])


def _command(process: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return f"{process} {' '.join(words).strip()}"
    return str(process)
