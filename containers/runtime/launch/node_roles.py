"""The two roles in a supervised job: the main node decides how it ended; the others report and obey."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime import exit_reports, linux
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE
from slipway.containers.runtime.exit_reports import SUCCESS, ExitReport
from slipway.containers.runtime.launch import supervise
from slipway.containers.runtime.launch.supervise import FAREWELL_SECONDS, Supervisor, Watch
from slipway.containers.runtime.linux import Connection, read_connections
from slipway.containers.runtime.observe.progress import RankNode, Stragglers
from slipway.containers.runtime.rendezvous.peers import PeerEvent

_SETTLE_SECONDS = 1.0  # in which the cause of a failure may still arrive from another node


class MainSupervisor(Supervisor):
    """Decide how the job ended. In Batch it ends when this node ends; a dead child node ends nothing by
    itself."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self._awaited = set(watch.peers.links)  # nodes whose ranks still run
        self._failures: list[ExitReport] = []
        self._stragglers = Stragglers(watch.say)
        expected = Expected(
            world=watch.contract.world,
            port=watch.contract.main_port,
            peers=frozenset(link.address for link in watch.peers.links.values()),
            has_accelerators=watch.has_accelerators,
        )
        self._meeting = Meeting(expected, watch.root)
        self._decides_at = float("inf")

    def fail(self, ending: ExitReport) -> None:
        if not self._failures:
            self.watch.say(f"{ending.reason}; the job ends")
        self._failures.append(ending)
        settle = _SETTLE_SECONDS if self.watch.peers.links else 0.0
        self._decides_at = min(self._decides_at, time.monotonic() + settle)

    def hear(self, event: PeerEvent) -> None:
        if event.lost is not None:
            self._lose(event.node, event.lost)
        elif event.message is not None:
            if "failed" in event.message:
                self.fail(exit_reports.from_json(event.message["failed"]))
            if "done" in event.message:
                self._awaited.discard(event.node)
                self.stopped.append(exit_reports.from_json(event.message["done"]))
            if "stop" in event.message:
                self.stop(supervise.read_stop(event.message["stop"]))
            if "paces" in event.message:
                self._hear_paces(event.node, event.message["paces"])

    def tell_paces(self, paces: Mapping[int, float]) -> None:
        own = self.watch.peers.member
        self._stragglers.hear(RankNode(node=own.node, host=own.host), paces)
        self._stragglers.compare()

    def conclude(self) -> None:
        self._meeting.look(self.watch.team.running())
        now = time.monotonic()
        if self.kills_at is not None and now > self.kills_at + FAREWELL_SECONDS:
            self._awaited.clear()
        if now > self._decides_at:
            self.verdict = exit_reports.first_cause(self._failures)
        elif not self._failures and not self.watch.team.running() and not self._awaited:
            resumes = self.asked is not None and self.asked.resumes
            self.verdict = exit_reports.after_stop(self.stopped, resumes=resumes)
        if self.verdict is not None:
            self.watch.peers.tell({"end": self.verdict.to_json()})

    def say_farewell(self, verdict: ExitReport) -> None:
        """Wait for the other nodes, which Batch ends with this one: their ranks may still save and log."""
        for line in self._stragglers.report():
            self.watch.say(line)
        self.wait(FAREWELL_SECONDS + self.promised_seconds(), lambda: not self.watch.peers.links)
        if verdict.code == 0 and (warning := self._meeting.warning()):
            self.watch.say(warning)

    def _hear_paces(self, node: int, paces: Json) -> None:
        link = self.watch.peers.links.get(node)
        if link is not None and isinstance(paces, dict):
            read = {int(rank): float(each) for rank, each in paces.items() if isinstance(each, (int, float))}
            self._stragglers.hear(RankNode(node=node, host=link.host), read)

    def _lose(self, node: int, why: str) -> None:
        if node not in self._awaited:
            return
        self._awaited.discard(node)
        ending = ExitReport(code=RESUMABLE_EXIT_CODE, reason=f"lost {why}; the next attempt resumes")
        if self.kills_at is None:
            self.fail(ending)
        else:
            self.stopped.append(ending)


class ChildSupervisor(Supervisor):
    """Report this node's ranks to the main node and obey it."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self._reported: ExitReport | None = None
        self._told_paces: Mapping[int, float] = {}

    def fail(self, ending: ExitReport) -> None:
        if self._reported is None:
            self._report("failed", ending)

    def hear(self, event: PeerEvent) -> None:
        if event.lost is not None:
            lost = ExitReport(code=RESUMABLE_EXIT_CODE, reason=f"lost the main node: {event.lost}")
            self.verdict = self.verdict or self._failure() or lost
        elif event.message is not None:
            if "end" in event.message:
                self.verdict = exit_reports.from_json(event.message["end"])
            if "stop" in event.message:
                self.stop(supervise.read_stop(event.message["stop"]))

    def tell_paces(self, paces: Mapping[int, float]) -> None:
        if paces != self._told_paces:
            self._told_paces = paces
            self.watch.peers.tell({"paces": {str(rank): seconds for rank, seconds in paces.items()}})

    def conclude(self) -> None:
        if self._reported is None and not self.watch.team.running():
            self._report("done", exit_reports.after_stop(self.stopped))

    def _report(self, how: str, ending: ExitReport) -> None:
        self._reported = ending
        self.watch.peers.tell({how: ending.to_json()})

    def _failure(self) -> ExitReport | None:
        return self._reported if self._reported not in (None, SUCCESS) else None


# Did the ranks of a job work together? Seen by the main node's launcher: programs stay as they are. Ranks
# meet where there is a connection at the contract's port, as torch.distributed makes one, or between a rank
# of this node and another rank or node. On processors they also have to send each other something: accelerate
# without ACCELERATE_USE_CPU forms a process group and then trains each rank alone. What devices send is not
# seen, nor what goes the ways of _OTHER_WAYS. Only ranks that loaded PyTorch are judged: who prepares data or
# asks a machine for its name meets nobody.
WORKED_ALONE = "ranks seem to have worked alone"  # jobs/submit/logs.py looks for it in a job's log
_TORCH = "/libtorch"
_OTHER_WAYS = ("/libmpi.", "/libfabric", "/jaxlib/", "/tensorflow/", "/ray/")
# A greeting on a connection of gloo takes 9 bytes, and the smallest collective takes 288 more.
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
        """Return a warning if ranks that all ended well never worked together, else None."""
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
