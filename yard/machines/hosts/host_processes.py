"""The yard's connections to the processes of hosts: one process per VPC, and each host's first process."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.yard.errors import going_on
from slipway.yard.machines.isolation.tiers import programs
from slipway.yard.machines.settings import CHECKOUT

log = logging.getLogger("yard.hosts")

NETWORK_MODULE = "slipway.yard.machines.hosts.inside.network"
PLAIN_MODULE = "slipway.yard.machines.hosts.inside.plain"
LARGEST_EVENT = 65536
OBEY_TIMEOUT_S = 10.0
_DESCRIPTORS = 5  # at most with one event: output, and up to four listeners


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvent:
    name: str
    said: Mapping[str, Any]
    descriptors: tuple[int, ...] = ()


EventHandler = Callable[[HostEvent], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCommand:
    """A command that a host runs besides its units."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


class _Channel:
    """Sends orders, and receives events on a thread of its own; the last event is `gone`."""

    def __init__(self, ours: socket.socket, name: str, handle: EventHandler) -> None:
        self._socket, self._handle = ours, handle
        threading.Thread(target=self._listen, name=name, daemon=True).start()

    def order(self, do: str, descriptors: tuple[int, ...] = (), **more: object) -> None:
        with suppress(OSError):  # the process has ended; `gone` will follow
            socket.send_fds(self._socket, [json.dumps({"do": do, **more}).encode()], descriptors)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        while event := self._next():
            with going_on(log, "cannot handle the event %s of a host", event.name):
                self._handle(event)
        self._socket.close()
        self._handle(HostEvent(name="gone", said={}))

    def _next(self) -> HostEvent | None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, LARGEST_EVENT, _DESCRIPTORS)
        except OSError:
            return None
        if not data:
            return None
        said: dict[str, Any] = json.loads(data)
        return HostEvent(name=said["event"], said=said, descriptors=tuple(descriptors))


class VpcNetwork:
    """The network of one VPC. Closing it ends its process, and with it every host."""

    def __init__(self, tier: str, vpc: str, handle: EventHandler) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _start(NETWORK_MODULE, tier, theirs)
        self._vpc, self._handle = vpc, handle
        self._obeyed = threading.Event()
        self._channel = _Channel(ours, f"network {vpc}", self._hear)

    def _hear(self, event: HostEvent) -> None:
        if event.name in ("obeyed", "gone"):
            self._obeyed.set()
        if event.name != "obeyed":
            self._handle(event)

    def start(self, number: int, plan: Path, handle: EventHandler) -> HostChannel:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._channel.order("start", (theirs.fileno(),), host=number, plan=str(plan))
        return HostChannel(_Channel(ours, f"host {number}", handle))

    def set_firewall(self, number: int, rules: str) -> None:
        self._order_and_wait("firewall", host=number, rules=rules)

    def set_link(self, number: int, faults: Mapping[str, float]) -> None:
        self._order_and_wait("link", host=number, faults=faults)

    def _order_and_wait(self, do: str, **more: object) -> None:
        """Give an order and wait until it is carried out; only one thread at a time may do this."""
        self._obeyed.clear()
        self._channel.order(do, (), **more)
        if self.is_alive() and not self._obeyed.wait(OBEY_TIMEOUT_S):
            log.warning(
                "the network of %s has not set a host's %s within %g s", self._vpc, do, OBEY_TIMEOUT_S
            )

    def kill(self, number: int) -> None:
        self._channel.order("kill", host=number)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._channel.close()
        self._process.wait()


class HostChannel:
    """Sends orders to a host's first process."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def command(self, name: str, run: HostCommand, descriptors: tuple[int, int]) -> None:
        self._channel.order("command", descriptors, id=name, argv=run.argv, environment=run.environment)

    def signal(self, name: str, number: int) -> None:
        self._channel.order("signal", id=name, signal=number)

    def shut_down(self) -> None:
        self._channel.order("shut-down")

    def reboot(self) -> None:
        """Restart the host's system; a host whose boot is imitated does not support this."""
        self._channel.order("reboot")

    def power_off(self) -> None:
        """End a host that has no network process, which would otherwise end it."""
        self._channel.order("power-off")


def start_plain(plan: Path, handle: EventHandler) -> HostChannel:
    """Start a host without isolation, as plain processes of this machine."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = _start(PLAIN_MODULE, str(plan), theirs)

    def handle_and_reap(event: HostEvent) -> None:
        if event.name == "gone":
            process.wait()
        handle(event)

    return HostChannel(_Channel(ours, f"host {process.pid}", handle_and_reap))


def _start(module: str, first: str, theirs: socket.socket) -> subprocess.Popen[bytes]:
    environment = {"PATH": programs(), "PYTHONPATH": str(CHECKOUT)}
    return subprocess.Popen(
        [sys.executable, "-S", "-m", module, first, str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
