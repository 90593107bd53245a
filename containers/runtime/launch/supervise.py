"""One node of a running job: it watches its own ranks and the other nodes, and ends all when any ends badly.

The main node decides how the job ended and tells the others; each ends its own ranks. The two parts differ in
what they do with a failure and with being done: node_roles.py.
"""

from __future__ import annotations

import json
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from http.client import HTTPException
from pathlib import Path

from slipway.containers.runtime import linux
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.settings import SPOT, Settings
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE
from slipway.containers.runtime.exit_reports import ExitReport
from slipway.containers.runtime.launch.team import Team
from slipway.containers.runtime.observe.progress import SAVING, Progress
from slipway.containers.runtime.rendezvous.peers import PeerEvent, Peers

_POLL_SECONDS = 0.2
_PACE_SECONDS = 2.0
_ABANDON_SECONDS = (
    3.0  # from SIGTERM to SIGKILL where the job has failed: its collectives cannot end any more
)
_DUMP_SECONDS = 1.0  # in which ranks print their stacks
_REAP_SECONDS = 5.0  # in which the kernel ends what was killed
FAREWELL_SECONDS = _DUMP_SECONDS + _ABANDON_SECONDS + 2.0  # in which the other nodes end theirs
_STOP_CODE = 128 + signal.SIGTERM


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Hold what a supervisor works with."""

    settings: Settings
    team: Team
    peers: Peers
    progress: Progress
    notice: Callable[[], Stop | None]  # that this machine is taken away
    contract: LaunchContract  # of the first rank here
    has_accelerators: bool  # that ranks may use
    say: Callable[[str], None]
    root: Path
    signs: Callable[[], list[str]]  # that a device of this node is ill


class Supervisor:
    """Watch the ranks of this node and its peers until it is known how the job ended."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.stopped: list[ExitReport] = []  # of ranks that ended well, or after they were asked to stop
        self.verdict: ExitReport | None = None  # how the job ended
        self.asked: Stop | None = None
        self.kills_at: float | None = None  # asked to stop; what still runs then is killed
        self._has_failed = False
        self._compared = 0.0

    def run(self) -> ExitReport:
        """Return how the job ended; no rank of this node is left then."""
        while self.verdict is None:
            for event in self.watch.peers.poll(_POLL_SECONDS):
                self.hear(event)
            self._obey_signals()
            for ending in self.watch.team.reap():
                self._rank_ended(ending)
            self._watch_time()
            self._watch_progress()
            self.conclude()
        self._end_ranks(self.verdict)
        self.say_farewell(self.verdict)
        return self.verdict

    def fail(self, ending: ExitReport) -> None:
        raise NotImplementedError

    def hear(self, event: PeerEvent) -> None:
        raise NotImplementedError

    def conclude(self) -> None:
        """Set the verdict once it is known. Called at every turn."""
        raise NotImplementedError

    def tell_paces(self, paces: Mapping[int, float]) -> None:
        """Pass on the seconds per step of each rank of this node."""
        raise NotImplementedError

    def say_farewell(self, verdict: ExitReport) -> None:
        """Do what is left to do after the ranks of this node are gone."""

    def stop(self, asked: Stop) -> None:
        """Ask all ranks of all nodes to save and end; none is killed before its time is over."""
        if self.kills_at is not None or self.verdict is not None:
            return
        grace = self._grace_seconds(asked)
        who = "" if asked.node == self.watch.peers.member.node else f"node {asked.node}: "
        self.watch.say(f"{who}{asked.why}: ranks have {grace:g} s to write a checkpoint and end")
        self.asked = asked
        self.kills_at = time.monotonic() + grace
        self.watch.team.signal(signal.SIGTERM)
        self.watch.peers.tell({"stop": asked.to_json()})

    def promised_seconds(self) -> float:
        """Return what is left of the time that ranks were promised."""
        return 0.0 if self.kills_at is None else max(0.0, self.kills_at - time.monotonic())

    def _grace_seconds(self, asked: Stop) -> float:
        grace = self.watch.settings.grace_seconds
        if asked.seconds is not None:  # a machine that goes later than that, or whose clock is wrong
            grace = max(grace, round(asked.seconds - FAREWELL_SECONDS))
        if self.watch.contract.deadline is not None:
            grace = max(0.0, min(grace, self.watch.contract.deadline - time.time()))
        return grace

    def _stop_here(self, why: str) -> None:
        self.stop(Stop(why=why, node=self.watch.peers.member.node))

    def _obey_signals(self) -> None:
        for number in self.watch.peers.signals.received():
            if self.kills_at is not None and number == signal.SIGINT:
                self.kills_at = 0.0  # a second Ctrl-C
            self._stop_here(f"{signal.Signals(number).name} received")

    def _rank_ended(self, ending: ExitReport) -> None:
        if self.kills_at is None and ending.code != 0:
            self.fail(self._resumable_or_not(ending))
        elif self.kills_at is not None and ending.code == 128 + signal.SIGKILL and ending.by_signal:
            why = f"rank {ending.rank} did not end in time and was killed"
            self.stopped.append(replace(ending, code=_STOP_CODE, reason=why))
        else:
            self.stopped.append(ending)

    def _resumable_or_not(self, ending: ExitReport) -> ExitReport:
        if ending.code != RESUMABLE_EXIT_CODE and (signs := self.watch.signs()):
            unfit = f"{self.watch.peers.member.host} is not fit for the job: {'; '.join(signs)}"
            # As a rank that was killed, it explains the exceptions of its peers.
            reason = f"{ending.reason}; {unfit}"
            return replace(ending, code=RESUMABLE_EXIT_CODE, reason=reason, by_signal=True)
        if not (ending.by_signal and self.watch.settings.resume_after_signals):
            return ending
        return replace(ending, code=RESUMABLE_EXIT_CODE, reason=f"{ending.reason}; the next attempt resumes")

    def _watch_time(self) -> None:
        if (notice := self.watch.notice()) is not None:
            self.stop(notice)
        grace = self.watch.settings.grace_seconds
        if self.watch.contract.deadline is not None and time.time() > self.watch.contract.deadline - grace:
            self._stop_here("the deadline is near")
        if self.kills_at is not None and time.monotonic() > self.kills_at:
            self.watch.team.kill()

    def _watch_progress(self) -> None:
        if self._has_failed or self.kills_at is not None:
            return
        running = self.watch.team.running()
        self.watch.progress.look(running)
        if time.monotonic() - self._compared > _PACE_SECONDS:
            self._compared = time.monotonic()
            self.tell_paces(self.watch.progress.paces())
        stuck = self.watch.progress.stuck(running)
        if stuck:
            self._has_failed = True
            states = {rank: linux.state(running[rank], self.watch.root) for rank in stuck}
            self.fail(_hang(stuck, states, self.watch))

    def _end_ranks(self, verdict: ExitReport) -> None:
        team = self.watch.team
        if verdict.dump:
            team.signal(signal.SIGUSR1)
            self.wait(_DUMP_SECONDS, lambda: not team.running())
        team.signal(signal.SIGTERM)
        team.signal(signal.SIGCONT)  # one that was stopped would not hear it
        # A save needs no peer that is lost, and a job that failed meanwhile resumes from it.
        self.wait(max(_ABANDON_SECONDS, self.promised_seconds()), lambda: not team.running())
        team.kill()
        self.wait(_REAP_SECONDS, lambda: not team.running())

    def wait(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Wait until `is_over` while heartbeats go on, or peers would take this node for dead. Ctrl-C ends
        the wait."""
        ends = time.monotonic() + seconds
        while not is_over() and time.monotonic() < ends:
            self.watch.peers.poll(_POLL_SECONDS)
            self.watch.team.reap()
            if signal.SIGINT in self.watch.peers.signals.received():
                ends = self.kills_at = 0.0


def _hang(stuck: Mapping[int, str], states: Mapping[int, str], watch: Watch) -> ExitReport:
    named = [f"{rank} ({where}, process state {states[rank]})" for rank, where in stuck.items()]
    reason = (
        f"no progress for too long on {watch.peers.member.host} by rank {', '.join(named)}; stacks are above"
    )
    if any(where.startswith(f"while {SAVING}") for where in stuck.values()):
        reason += (
            "; its file system does not answer, and the next attempt resumes from the last good checkpoint"
        )
    return ExitReport(code=RESUMABLE_EXIT_CODE, reason=reason, rank=min(stuck), dump=True)


# Why all ranks are asked to stop before they are done, and how long they have; nodes tell each other.


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ask all ranks to stop. The request reaches one node from outside, and every node passes it to its
    ranks."""

    why: str
    node: int  # the one that was asked
    seconds: float | None = None  # until its machine is gone; None: the grace of the settings
    resumes: bool = False  # the machines end, not the job: another attempt is wanted whatever the ranks say

    def to_json(self) -> Json:
        return dict(asdict(self))


def read_stop(value: Json) -> Stop:
    """Read the request of a peer in this attempt; a damaged one still stops."""
    record = value if isinstance(value, dict) else {}
    node, seconds = record.get("node"), record.get("seconds")
    return Stop(
        why=str(record.get("why", "a node did not say why")),
        node=node if type(node) is int else 0,
        seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
        resumes=record.get("resumes") is True,
    )


# Hears that EC2 takes a Spot instance back: asks the instance's metadata every few seconds, in a thread.
# A new kind of notice is one path and one function of what is found there. Metadata is asked as IMDSv2 wants
# it: a token first (EC2 User Guide, "Use IMDSv2"), no proxy, no patience: the answer is on this machine.
# EC2 User Guide, "Spot Instance interruption notices": look every 5 seconds; it comes two minutes ahead.
_EVERY_SECONDS = 5.0
_ANSWER_SECONDS = 1.0
_TOKEN_HEADER = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
_INTERRUPTION = "/latest/meta-data/spot/instance-action"
_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
NOTICES = (_INTERRUPTION, _REBALANCE)
TOKEN_PATH = "/latest/api/token"  # noqa: S105  # a path
_FAILURES_SAID = 3  # in a row, before it is said: one lost answer is nothing
_UNAUTHORIZED, _NOT_FOUND = 401, 404
_MOST_BYTES = 4096


@contextmanager
def listening(
    settings: Settings, node: int, say: Callable[[str], None]
) -> Iterator[Callable[[], Stop | None]]:
    """Yield a function that returns the Spot notice, if there is one. An instance that is not Spot is not
    asked."""
    if settings.market != SPOT:
        yield lambda: None
        return
    notices = SpotNotices(settings.metadata_endpoint, node, say)
    try:
        yield notices.heard
    finally:
        notices.close()


class Metadata:
    """Asks the instance metadata service, which has an answer at once or none."""

    def __init__(self, endpoint: str, seconds: float = _ANSWER_SECONDS) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._seconds = seconds
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token = ""

    def get(self, path: str) -> str | None:
        """Return the notice, or None if there is none. A token may run out, or be another's after a stop
        and start."""
        for has_retried in (False, True):
            self._token = self._token or self._ask("PUT", TOKEN_PATH, _TOKEN_HEADER)
            try:
                return self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == _NOT_FOUND:
                    return None
                if error.code != _UNAUTHORIZED or has_retried:
                    raise
                self._token = ""
        raise AssertionError("the second answer is returned or raised")

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> str:
        # Settings took the endpoint for http:// or https://, so that this opens no file.
        request = urllib.request.Request(self.endpoint + path, method=method, headers=headers)  # noqa: S310
        with self._opener.open(request, timeout=self._seconds) as answer:
            content: bytes = answer.read(_MOST_BYTES)
        return content.decode()


def is_taken_back(endpoint: str) -> bool:
    """Return True if EC2 has given notice to this instance; no answer is no notice."""
    try:
        return Metadata(endpoint).get(_INTERRUPTION) is not None
    except (OSError, HTTPException, ValueError):
        return False


class SpotNotices:
    def __init__(self, endpoint: str, node: int, say: Callable[[str], None]) -> None:
        self._metadata = Metadata(endpoint)
        self._node = node
        self._say = say
        self._failures = 0
        self._has_said_rebalance = False
        self._heard: Stop | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spot notices", daemon=True)
        self._thread.start()

    def heard(self) -> Stop | None:
        return self._heard

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while self._heard is None and not self._closed.is_set():
            try:
                self._look()
                self._failures = 0
            except (OSError, HTTPException, ValueError) as error:
                self._count(error)
            self._closed.wait(_EVERY_SECONDS)

    def _look(self) -> None:
        if (found := self._metadata.get(_INTERRUPTION)) is not None:
            self._heard = _interruption(found, self._node)
        elif not self._has_said_rebalance and self._metadata.get(_REBALANCE) is not None:
            self._has_said_rebalance = True
            self._say("EC2 warns that this Spot instance may be interrupted soon")

    def _count(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == _FAILURES_SAID:
            self._say(
                f"warning: instance metadata at {self._metadata.endpoint} does not answer ({error}), so a "
                "Spot interruption would not be heard; allow containers two hops (HttpPutResponseHopLimit)"
            )


def _interruption(text: str, node: int) -> Stop:
    """Read `{"action": "terminate", "time": "2017-09-18T08:22:00Z"}`; ignore a time that cannot be read."""
    try:
        record = json.loads(text)
        action, at = str(record["action"]), str(record["time"])
        ends = datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, KeyError, TypeError, RecursionError):
        return Stop(why="EC2 reclaims this Spot instance", node=node, resumes=True)
    why = f"EC2 reclaims this Spot instance ({action} at {at})"
    return Stop(why=why, node=node, seconds=ends - time.time(), resumes=True)
