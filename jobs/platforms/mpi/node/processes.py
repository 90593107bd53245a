"""The processes of jobs on this node: each carries its job's name in its environment, whoever started it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from slipway.containers.runtime.contract import variables

_VARIABLE = f"{variables.JOB}=".encode()
_LAUNCHER = b"slipway.containers.runtime.launch"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - each file there is looked at
_PAUSE_SECONDS = 0.2
_REAP_SECONDS = 5.0


def jobs_here() -> list[str]:
    return sorted({job for _, job in _marked()})


def processes_of(job: str) -> list[int]:
    return [pid for pid, name in _marked() if name == job]


def end_processes(
    job: str, grace_seconds: float, *, pause: Callable[[float], None] = time.sleep
) -> list[int]:
    """Send SIGTERM, and SIGKILL after the grace time; return the processes that even that did not end.

    Launchers alone are asked first: they give their ranks time to save, where mpirun would kill them.
    """
    asked = processes_of(job)
    launchers = [pid for pid in asked if _is_launcher(pid)]
    _signal(launchers or asked, signal.SIGTERM)
    _wait(job, grace_seconds, pause)
    ends = time.monotonic() + _REAP_SECONDS
    while (left := processes_of(job)) and time.monotonic() < ends:
        _signal(left, signal.SIGKILL)
        pause(_PAUSE_SECONDS)
    return left


def clear_memory(user: int, folder: Path = _SHARED_MEMORY) -> None:
    """Remove what ranks of the user left, unless a job still runs: the next one would miss that memory."""
    if jobs_here():
        return
    for path in folder.iterdir():
        with suppress(OSError):
            if path.lstat().st_uid == user:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _wait(job: str, seconds: float, pause: Callable[[float], None]) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and processes_of(job):
        pause(_PAUSE_SECONDS)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _marked() -> Iterator[tuple[int, str]]:
    """Yield jobs' processes, except this one and its parent: their command may carry the name too."""
    own = {os.getpid(), os.getppid()}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError, ValueError):
            for entry in path.read_bytes().split(b"\0"):
                if entry.startswith(_VARIABLE) and int(path.parent.name) not in own:
                    yield int(path.parent.name), entry.removeprefix(_VARIABLE).decode(errors="replace")


def _is_launcher(pid: int) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return _LAUNCHER in words
    return False
