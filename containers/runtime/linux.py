"""What the launcher asks of the kernel beyond Python's `os`. On other systems these do nothing."""

from __future__ import annotations

import ctypes
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SOCKET = re.compile(r"socket:\[([0-9]+)\]", re.ASCII)  # in /proc/PID/fd


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, however it dies. Survives exec, not fork."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def flush_c_streams() -> None:
    """Write what C and C++ libraries have printed and still hold back: os._exit does not."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def adopt_orphans() -> None:
    """Become the parent of what ranks leave behind, as process 1 would, so that it can be found and
    reaped."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children(root: Path) -> list[int]:
    """List every process whose parent we are."""
    return [pid for pid, parent in _parents(root).items() if parent == os.getpid()]


def descendants(known: Mapping[int, int], root: Path) -> dict[int, int]:
    """Return what is known of some processes for all that descend from them as well."""
    parents, found = _parents(root), dict(known)
    while born := {pid: found[up] for pid, up in parents.items() if up in found and pid not in found}:
        found |= born
    return found


def libraries(pid: int, root: Path) -> set[str]:
    """Return the paths of the files that a process has mapped; none of one that has ended."""
    with suppress(OSError):
        lines = (root / "proc" / str(pid) / "maps").read_text(errors="replace").splitlines()
        return {line[line.index("/") :] for line in lines if "/" in line}
    return set()


def sockets(pid: int, root: Path) -> list[int]:
    """Return the inodes of a process's open sockets; none of one that has ended, or is somebody else's."""
    found = []
    with suppress(OSError):
        for path in (root / "proc" / str(pid) / "fd").iterdir():
            with suppress(OSError):  # it was closed meanwhile
                if socket := _SOCKET.fullmatch(str(path.readlink())):
                    found.append(int(socket[1]))
    return found


def kill_marked(mark: str) -> None:
    """Kill every process that has `mark` in its environment, and repeat until no new one appears."""
    killed: set[str] = set()
    while found := {path.parent.name for path in _marked(mark)} - killed:
        for name in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)
        killed |= found


def state(pid: int, root: Path) -> str:
    """Return the state of a process: R, S, D, T … as in proc(5)."""
    with suppress(OSError, IndexError):
        return (root / "proc" / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return "?"


def memory_kills(root: Path) -> int:
    """Count the processes of this container that the kernel killed for memory; cgroup v2, else v1."""
    for name in ("memory.events", "memory/memory.oom_control"):
        with suppress(OSError, ValueError, KeyError):
            text = (root / "sys/fs/cgroup" / name).read_text()
            return int(dict(line.split(maxsplit=1) for line in text.splitlines())["oom_kill"])
    return 0


def _parents(root: Path) -> dict[int, int]:
    """Return the parent of each process."""
    found = {}
    for path in (root / "proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            found[int(path.parent.name)] = int(fields[1])
    return found


def _marked(mark: str) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if int(path.parent.name) != os.getpid() and mark.encode() in path.read_bytes():
                found.append(path)
    return found


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
