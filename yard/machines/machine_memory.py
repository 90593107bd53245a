"""What the kernel says of this machine's memory, and of the groups of processes that may have less of it.

Another version of such groups is one row of _VERSIONS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMemory:
    """Reads the kernel's figures; `root` is the folder of /proc and /sys."""

    root: Path = Path("/")

    def total_mib(self) -> int:
        """Return the memory of the machine, or of the smallest group of processes that holds this one."""
        limits = [limit for limit, _ in _limits(self.root)]
        return min([_meminfo(self.root, "MemTotal"), *limits]) // _MIB

    def free_mib(self) -> int:
        left = [limit - used for limit, used in _limits(self.root)]
        return max(0, min([_meminfo(self.root, "MemAvailable"), *left])) // _MIB


def _meminfo(root: Path, name: str) -> int:
    try:
        text = (root / "proc/meminfo").read_text(encoding="ascii")
    except FileNotFoundError:  # no Linux: all of it counts as free
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = re.search(rf"^{name}:\s+([0-9]+) kB$", text, re.MULTILINE)
    assert found is not None, f"/proc/meminfo has no {name}: proc(5) has had it since Linux 3.14"
    return int(found[1]) << 10


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and use, in bytes, of each group of processes around this one; cgroup v2 and v1."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            for version in _VERSIONS:
                if controllers == version.controllers:
                    yield from _around(root / version.mount, path, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    controllers: str  # as /proc/self/cgroup says it
    mount: str
    limit: str
    used: str
    reclaimable: str  # in memory.stat: caches of files, which make room


_VERSIONS = (
    _Version(
        controllers="",
        mount="sys/fs/cgroup",
        limit="memory.max",
        used="memory.current",
        reclaimable="inactive_file",
    ),
    _Version(
        controllers="memory",
        mount="sys/fs/cgroup/memory",
        limit="memory.limit_in_bytes",
        used="memory.usage_in_bytes",
        reclaimable="total_inactive_file",
    ),
)


def _around(mount: Path, path: str, version: _Version) -> Iterator[tuple[int, int]]:
    """A container may see its own group as the root, and its path of the outside all the same."""
    inner = mount / path.strip("/")
    for folder in (inner, *inner.parents):
        if folder.is_relative_to(mount):
            with suppress(OSError, ValueError):  # there is no such file, or it says "max"
                limit = int((folder / version.limit).read_text(encoding="ascii"))
                used = int((folder / version.used).read_text(encoding="ascii"))
                yield limit, used - _reclaimable(folder, version)


def _reclaimable(folder: Path, version: _Version) -> int:
    with suppress(OSError):
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == version.reclaimable:
                return int(value)
    return 0
