"""Exit codes, and ending plain processes without a namespace. Standard library only."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

CANNOT_RUN, NOT_FOUND = 126, 127  # the exit codes of shells and Docker


def code_of(error: OSError, program: str, path: str) -> int:
    """Return the exit code for a program that could not be started.

    "Permission denied" may come from a folder on PATH that this user cannot enter.
    """
    if isinstance(error, FileNotFoundError):
        return NOT_FOUND
    return CANNOT_RUN if shutil.which(program, mode=os.F_OK, path=path) else NOT_FOUND


def shell_code(code: int) -> int:
    """Return an exit code as a shell tells it: 128 and the signal's number if a signal ended the process."""
    return code if code >= 0 else 128 - code


def ended_children() -> Iterator[tuple[int, int]]:
    """Yield each child that has ended, with its exit code, without waiting."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def kill_all(pids: Sequence[int], number: int = signal.SIGKILL) -> None:
    assert all(pid > 0 for pid in pids), "0 and negative numbers mean process groups"
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(root: int) -> list[int]:
    """Return all processes below this one."""
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
