"""The peers of a launcher, which are the launchers of the other nodes: join them, talk, and notice lost ones.

`Alone` is a job of one node; hub.py is the main node's side, spoke.py that of all others.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass
from types import FrameType

from slipway.containers.runtime.errors import Interruption
from slipway.containers.runtime.rendezvous.wire import Message, PeerLink

_BEATS = 5  # within one timeout
_LONGEST_BEAT_SECONDS = 1.0


class StoppedBeforeStart(Interruption):
    """The job was asked to end before the training had begun."""

    exit_code = 143


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMember:
    """Hold what every launcher tells about itself when it joins."""

    key: bytes
    node: int
    nodes: int
    host: str
    digest: str
    findings: tuple[str, ...]  # what its health check missed


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerEvent:
    """Carry a message of a node, or say that the node is lost and why."""

    node: int
    message: Message | None = None
    lost: str | None = None


class Peers:
    def __init__(self, member: PeerMember, signals: SignalPipe, heartbeat_seconds: float) -> None:
        self.member = member
        self.signals = signals
        self.links: dict[int, PeerLink] = {}  # by node
        self.selector = selectors.DefaultSelector()
        self.selector.register(signals.fileno(), selectors.EVENT_READ)
        self._heartbeat_seconds = heartbeat_seconds
        self._beat_seconds = min(heartbeat_seconds / _BEATS, _LONGEST_BEAT_SECONDS)
        self._beaten = 0.0
        self._listened = time.monotonic()

    def meet(self, deadline: float) -> int:
        """Wait until all nodes are there and healthy; return the port for the training's own rendezvous."""
        raise NotImplementedError

    def poll(self, timeout: float) -> list[PeerEvent]:
        """Return what came within `timeout` seconds.

        It reads before it judges silence: a launcher that was itself stopped finds its peers' heartbeats
        waiting.
        """
        self.beat()
        for key, _ in self.selector.select(min(timeout, self._beat_seconds)):
            self.ready(key.data)
        self._forgive_own_absence()
        events = [event for link in list(self.links.values()) for event in self._events(link)]
        for node, link in list(self.links.items()):
            if link.lost is not None:
                self.drop(link)
                del self.links[node]
        return events

    def beat(self) -> None:
        """Tell the others that this node lives, if it is time; call it between steps that take long."""
        now = time.monotonic()
        if now - self._beaten >= self._beat_seconds:
            self._beaten = now
            self.tell({"beat": True})

    def tell(self, message: Message) -> None:
        for link in self.links.values():
            link.send(message)

    def close(self) -> None:
        for link in self.links.values():
            link.close()
        self.links.clear()
        self.selector.close()

    def ready(self, who: object) -> None:
        """Handle something readable that is no link of a member: the listening socket of the hub."""

    def watch(self, link: PeerLink) -> None:
        self.selector.register(link.connection, selectors.EVENT_READ, link)

    def drop(self, link: PeerLink) -> None:
        self.selector.unregister(link.connection)
        link.close()

    def stop_if_asked(self) -> None:
        if self.signals.received():
            raise StoppedBeforeStart("asked to stop before the training had begun")

    def _forgive_own_absence(self) -> None:
        """Count silence only while this launcher listens.

        What paused or starved it may have done the same to a peer: two launchers that wake together must not
        take each other for dead.
        """
        now = time.monotonic()
        absent = now - self._listened
        self._listened = now
        if absent > self._heartbeat_seconds / 2:
            for link in self.links.values():
                link.heard += absent

    def _events(self, link: PeerLink) -> list[PeerEvent]:
        assert link.node is not None, "only members are asked"
        link.flush()
        found = [PeerEvent(node=link.node, message=message) for message in link.receive()]
        if time.monotonic() - link.heard > self._heartbeat_seconds:
            link.lost = link.lost or f"no heartbeat for {self._heartbeat_seconds:g} s"
        if link.lost is not None:
            found.append(PeerEvent(node=link.node, lost=f"node {link.node} ({link.host}): {link.lost}"))
        return [event for event in found if event.message is None or "beat" not in event.message]


class Alone(Peers):
    """Implement peers for a job of one node, which has none."""

    def __init__(self, member: PeerMember, signals: SignalPipe, port: int) -> None:
        super().__init__(member, signals, heartbeat_seconds=_BEATS * _LONGEST_BEAT_SECONDS)
        self._port = port

    def meet(self, deadline: float) -> int:
        if self.member.findings:
            raise unhealthy(self.member.node, self.member.host, self.member.findings)
        return free_port(self._port)


def unhealthy(node: int, host: str, findings: tuple[str, ...]) -> Interruption:
    return Interruption(
        f"node {node} ({host}) is not fit for the job: {'; '.join(findings)}",
        hint="another attempt may find a healthy one; if all say so, the job definition and the image differ",
    )


# The port to listen on is the one that both sides derive from the run, else one of the next few.
TRIED = 16
_BACKLOG = 1024  # a node each


def candidates(first: int) -> range:
    return range(first, min(first + TRIED, 65_536))


def listen(first: int) -> socket.socket:
    """Listen on the first free port. Peers try the same ports until one answers with a proof of this run."""
    for port in candidates(first):
        if (listener := _bound(port)) is not None:
            listener.listen(_BACKLOG)
            return listener
    raise Interruption(
        f"the ports {first} to {candidates(first)[-1]} are all in use on this node",
        hint="another job's processes may be left on it; set SLIPWAY_PORT to choose others",
    )


def free_port(first: int) -> int:
    """Find a free port for the training's own rendezvous, which binds it in a moment."""
    with listen(first) as listener:
        return int(listener.getsockname()[1])


def _bound(port: int) -> socket.socket | None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Connections of the last attempt may linger in TIME_WAIT; this does not share a port that is listened on.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("", port))
    except OSError as error:
        listener.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return None
    return listener


# Turn signals into bytes in a pipe, which a loop can wait for.
# USR1 is what Slurm sends ahead of its time limit (--signal=B:USR1@N).
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class SignalPipe:
    """Turn the stop signals of this process into bytes that a selector can wait for."""

    def __init__(self) -> None:
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            signal.signal(number, _noted)

    def fileno(self) -> int:
        return self._read_end

    def received(self) -> list[int]:
        """Return the stop signals received since the last call, in order."""
        try:
            found = os.read(self._read_end, 4096)
        except BlockingIOError:
            return []
        return [number for number in found if number in STOP_SIGNALS]


def _noted(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wake-up descriptor has the signal already."""
