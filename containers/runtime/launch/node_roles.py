"""The two parts in a supervised job: the main node decides how it ended, all others report and obey."""

from __future__ import annotations

import time
from collections.abc import Mapping

from slipway.containers.runtime import exit_reports
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE
from slipway.containers.runtime.exit_reports import SUCCESS, ExitReport
from slipway.containers.runtime.launch import stopping
from slipway.containers.runtime.launch.meeting import Expected, Meeting
from slipway.containers.runtime.launch.supervise import FAREWELL_SECONDS, Supervisor, Watch
from slipway.containers.runtime.observe.pace import RankNode, Stragglers
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
        self._meeting = Meeting(_expected(watch), watch.root)
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
                self.stop(stopping.from_json(event.message["stop"]))
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


def _expected(watch: Watch) -> Expected:
    return Expected(
        world=watch.contract.world,
        port=watch.contract.main_port,
        peers=frozenset(link.address for link in watch.peers.links.values()),
        has_accelerators=watch.has_accelerators,
    )


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
                self.stop(stopping.from_json(event.message["stop"]))

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
