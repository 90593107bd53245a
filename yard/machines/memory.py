"""What the yard's jobs may take of this machine's memory: each is promised what it needs before it starts.

A job starts where its need fits both what is left after the promises and what is free at the instant.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from slipway.jobs.words.errors import SlipwayError
from slipway.yard.machines.machine_memory import KernelMemory

VARIABLE = "SLIPWAY_YARD_MEMORY_MIB"  # that jobs may take together, in place of what the machine has free
# Measured with PyTorch 2.13: four ranks of gloo train 2 layers of 128 with a vocabulary of 30,522 on rows of
# 128 tokens. Each takes 353 to 384 MiB after a step (Pss) and has 650 resident at its peak, of which 80 are
# libraries that all ranks share. Larger models take more, which the yard does not know.
RANK_MIB = 512
# The launcher of a node: 15 MiB of its own, and as much again for what its shell and the yard keep of it.
NODE_MIB = 32
WAITS = (
    "CAPACITY:YARD_MEMORY - This machine has too little memory free for the job beside those that run. "
    "It starts when enough is free."
)
_MOST_MIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Holds the memory that a job needs, by the number of its processes."""

    nodes: int
    ranks: int  # of all nodes

    @property
    def mib(self) -> int:
        return self.nodes * NODE_MIB + self.ranks * RANK_MIB

    def __str__(self) -> str:
        return f"{self.mib:,} MiB for {self.nodes} node(s) with {self.ranks} rank(s) of {RANK_MIB} MiB"


@dataclass(slots=True, kw_only=True)
class Promises:
    """Records who was promised how much; every call may come from any thread."""

    machine: KernelMemory = field(default_factory=KernelMemory)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _most_free_mib: int = 0  # that was ever seen: what jobs have taken since is in their promises
    _held: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def most_mib(self) -> int:
        """More than this no job can ever have."""
        limit = limit_of(self.environment)
        return self.machine.total_mib() if limit is None else limit

    def refusal(self, need: Need) -> str | None:
        """Say why a job can never start on this machine, and what could; None if it can."""
        most = self.most_mib
        if need.mib <= most:
            return None
        what = f"the job takes {need}, and jobs of the yard may take {most:,} MiB on this machine"
        return f"{what}; {_what_fits(need, most)}"

    def admit(self, holder: str, need: Need) -> bool:
        """Promise the memory if it fits next to what others were promised and may not have taken yet."""
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
    """Say what fits, as a person would submit it."""
    fewer = range(need.ranks // need.nodes - 1, 0, -1)
    for processes in fewer:
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
