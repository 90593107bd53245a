"""Did the ranks of a job work together? Seen by the main node's launcher: programs stay as they are.

Ranks meet where there is a connection at the contract's port, as torch.distributed makes one, or between a
rank of this node and another rank or node. On processors they also have to send each other something:
accelerate without ACCELERATE_USE_CPU forms a process group and then trains each rank alone. What devices send
is not seen, nor what goes the ways of _OTHER_WAYS. Only ranks that loaded PyTorch are judged: who prepares
data or asks a machine for its name meets nobody.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime import linux
from slipway.containers.runtime.connections import Connection, read_connections

WORKED_ALONE = "ranks seem to have worked alone"  # jobs/submit/worked_alone.py looks for it in a job's log
_TORCH = "/libtorch"
_OTHER_WAYS = ("/libmpi.", "/libfabric", "/jaxlib/", "/tensorflow/", "/ray/")
# Of gloo's connections: 9 bytes are a greeting, and the smallest thing that ranks do together takes 288 more.
_GREETING_BYTES = 64
_FIRST_PAUSE_SECONDS = 0.5
_LONGER = 1.1  # each pause than the one before, so that it is a tenth of the time that ranks have run
# Linux remembers a connection for a minute after it was closed (include/net/tcp.h, TCP_TIMEWAIT_LEN), and
# ranks that did something together last of all were most often seen by then.
_LONGEST_PAUSE_SECONDS = 3.0
TO_WORK_TOGETHER = (
    "to train together, the program calls torch.distributed.init_process_group() and works in that group; "
    "accelerate does so on processors if ACCELERATE_USE_CPU is true"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Hold what is known of ranks before they meet."""

    world: int
    port: int  # where torch.distributed meets
    peers: frozenset[str]  # addresses of the other nodes
    has_accelerators: bool


class Meeting:
    """Watch for signs that ranks work together, until there is one."""

    def __init__(self, expected: Expected, root: Path) -> None:
        self._expected = expected
        self._root = root
        self._is_over = expected.world == 1  # nothing is left to see
        self._has_torch = self._has_met = self._was_silent = False
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._looks_at = 0.0

    def look(self, ranks: Mapping[int, int]) -> None:
        """Look, now and then, at the ranks of this node that run, given with their process ids."""
        if self._is_over or time.monotonic() < self._looks_at:
            return
        self._see(ranks)
        self._looks_at = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(_LONGER * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    def warning(self) -> str | None:
        """Return what to say of ranks that have all ended well."""
        if not self._is_over:
            self._see({})
        if self._is_over or not self._has_torch:
            return None
        if not self._has_met:
            why = (
                f"they loaded PyTorch, and neither at port {self._expected.port} nor elsewhere did they meet"
            )
        elif self._was_silent:
            why = "they formed a process group, and sent each other nothing that was seen"
        else:
            return None  # they met and hung up between two looks
        return f"warning: the {self._expected.world} {WORKED_ALONE}: {why}; {TO_WORK_TOGETHER}"

    def _see(self, ranks: Mapping[int, int]) -> None:
        found = read_connections()
        rank_of = linux.descendants({pid: rank for rank, pid in ranks.items()}, self._root)
        loaded = [name for pid in rank_of for name in linux.libraries(pid, self._root)]
        self._has_torch = self._has_torch or any(_TORCH in name for name in loaded)
        if found is None or any(way in name for name in loaded for way in _OTHER_WAYS):
            self._is_over = True  # nobody can tell
            return
        port = self._expected.port
        talks = [
            each for each in self._between(found, rank_of) if port not in (each.local[1], each.remote[1])
        ]
        at_port = any(port in (each.local[1], each.remote[1]) for each in found)
        self._has_met = self._has_met or at_port or bool(talks)
        self._was_silent = self._was_silent or bool(talks)
        have_talked = any(each.carried_bytes > _GREETING_BYTES for each in talks)
        self._is_over = have_talked or (self._has_met and self._expected.has_accelerators)

    def _between(self, found: list[Connection], rank_of: Mapping[int, int]) -> list[Connection]:
        """Return the open connections of ranks here to another node or to another rank here."""
        owners = {inode: rank for pid, rank in rank_of.items() for inode in linux.sockets(pid, self._root)}
        ends = {(each.local, each.remote): owners.get(each.inode) for each in found}
        return [
            each
            for each in found
            if each.inode in owners
            and (
                each.remote[0] in self._expected.peers
                or ends.get((each.remote, each.local)) not in (None, owners[each.inode])
            )
        ]
