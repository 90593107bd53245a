"""Plain processes that have no namespace to end them together. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path


def kill_all(pids: Sequence[int], number: int = signal.SIGKILL) -> None:
    assert all(pid > 0 for pid in pids), "0 and below are whole groups of processes"
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(root: int) -> list[int]:
    """All processes below this one; plain processes have no namespace that ends them together."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
            except OSError:
                continue
            parents[int(entry.name)] = int(fields.split()[1])
    found, edge = [], {root}
    while edge:
        edge = {pid for pid, parent in parents.items() if parent in edge}
        found += sorted(edge)
    return found
