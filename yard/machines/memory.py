"""Divides this machine's memory among the yard's jobs: each is promised what it needs before it starts.

A job starts if its need fits both what the promises leave and what is free now.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError

# The kernel's figures for this machine's memory, and for control groups, which may have less.
# To support another version of control groups: a row of _VERSIONS.
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMemory:
    """Reads the kernel's figures; `root` is the folder of /proc and /sys."""

    root: Path = Path("/")

    def total_mib(self) -> int:
        """Return the memory of the machine, or the lowest limit of a control group around this process."""
        limits = [limit for limit, _ in _limits(self.root)]
        return min([_meminfo(self.root, "MemTotal"), *limits]) // _MIB

    def free_mib(self) -> int:
        left = [limit - used for limit, used in _limits(self.root)]
        return max(0, min([_meminfo(self.root, "MemAvailable"), *left])) // _MIB


def _meminfo(root: Path, name: str) -> int:
    try:
        text = (root / "proc/meminfo").read_text(encoding="ascii")
    except FileNotFoundError:  # not Linux: all memory counts as free
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = re.search(rf"^{name}:\s+([0-9]+) kB$", text, re.MULTILINE)
    assert found is not None, f"/proc/meminfo has no {name}: proc(5) has had it since Linux 3.14"
    return int(found[1]) << 10


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use, in bytes, of each control group around this process, of version 2 or 1."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            for version in _VERSIONS:
                if controllers == version.controllers:
                    yield from _around(root / version.mount, path, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    controllers: str  # as in /proc/self/cgroup
    mount: str
    limit: str
    used: str
    reclaimable: str  # key in memory.stat: file caches, which the kernel can free


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
    """Yield limits from the group upwards; in a container the path may be the outer, absent one."""
    inner = mount / path.strip("/")
    for folder in (inner, *inner.parents):
        if folder.is_relative_to(mount):
            with suppress(OSError, ValueError):  # no such file, or its value is "max"
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


VARIABLE = "SLIPWAY_YARD_MEMORY_MIB"  # for all jobs together, instead of what is free
# Measured with PyTorch 2.13: four ranks (gloo) train 2 layers of width 128, with a vocabulary of 30,522 and
# rows of 128 tokens. Each takes 353 to 384 MiB (Pss) after a step, and 650 MiB resident at its peak, 80 of
# them libraries that all ranks share. Larger models take more; the yard does not account for that.
RANK_MIB = 512
# A node's launcher: 15 MiB of its own, and about as much again for its shell and its state in the yard.
NODE_MIB = 32
WAITS = (
    "CAPACITY:YARD_MEMORY - This machine has too little memory free for the job beside those that run. "
    "It starts when enough is free."
)
_MOST_MIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Computes the memory that a job needs from the number of its processes."""

    nodes: int
    ranks: int  # on all nodes together

    @property
    def mib(self) -> int:
        return self.nodes * NODE_MIB + self.ranks * RANK_MIB

    def __str__(self) -> str:
        return f"{self.mib:,} MiB for {self.nodes} node(s) with {self.ranks} rank(s) of {RANK_MIB} MiB"


@dataclass(slots=True, kw_only=True)
class Promises:
    """Records how much memory each job was promised; safe to call from any thread."""

    machine: KernelMemory = field(default_factory=KernelMemory)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _most_free_mib: int = 0  # seen since promises began: what jobs took since is in their promises
    _held: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def most_mib(self) -> int:
        """Return the most memory that a job can ever have."""
        limit = limit_of(self.environment)
        return self.machine.total_mib() if limit is None else limit

    def refusal(self, need: Need) -> str | None:
        """Return why a job can never start on this machine, and what would fit; None if it can."""
        most = self.most_mib
        if need.mib <= most:
            return None
        what = f"the job takes {need}, and jobs of the yard may take {most:,} MiB on this machine"
        return f"{what}; {_what_fits(need, most)}"

    def admit(self, holder: str, need: Need) -> bool:
        """Promise the memory if it fits beside the other promises, which jobs may not have used yet."""
        with self._lock:
            if need.mib > self._free_mib():
                return False
            self._held[holder] = need.mib
            return True

    def release(self, holder: str) -> None:
        with self._lock:
            self._held.pop(holder, None)

    def _free_mib(self) -> int:
        promised = sum(self._held.values())
        limit = limit_of(self.environment)
        if limit is not None:
            return limit - promised
        free = self.machine.free_mib()
        self._most_free_mib = max(free, self._most_free_mib) if promised else free
        return min(free, self._most_free_mib - promised)


def _what_fits(need: Need, most_mib: int) -> str:
    """Return the options with which the job would fit."""
    for processes in range(need.ranks // need.nodes - 1, 0, -1):
        if Need(nodes=need.nodes, ranks=need.nodes * processes).mib <= most_mib:
            return f"submit it with --processes-per-node {processes}"
    nodes = (most_mib - NODE_MIB) // (NODE_MIB + RANK_MIB)
    if need.nodes > nodes >= 1:
        return f"submit it with --nodes {nodes} --processes-per-node 1"
    return f"use a machine with more memory, or start the yard with a larger {VARIABLE}"


def limit_of(environment: Mapping[str, str]) -> int | None:
    given = environment.get(VARIABLE, "")
    if not given:
        return None
    if not re.fullmatch("[0-9]{1,10}", given, re.ASCII) or not 1 <= int(given) <= _MOST_MIB:
        raise SlipwayError(
            f"{VARIABLE} is {given!r}; it must be a whole number of MiB from 1 to {_MOST_MIB}",
            hint="set it to what all jobs of the yard may use together, or unset it to use what is free",
        )
    return int(given)


promises = Promises()
