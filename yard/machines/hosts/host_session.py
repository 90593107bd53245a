"""One host while it lives, from the yard's side: its log, its doors to the yard, and its commands.

What a host tells is an event; a new one is a method and its line in _HEARD.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from slipway.yard.machines import api_proxy
from slipway.yard.machines.hosts import host_store, metadata
from slipway.yard.machines.hosts.host_processes import HostEvent
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.machines.hosts.planning import plan
from slipway.yard.services.ssm import run_command

log = logging.getLogger("yard.hosts")

_PROCESS = re.compile(r"^Pid:\s*(\d+)", re.MULTILINE)


class HostSession:
    def __init__(self, host: Host, on_end: Callable[[Host], None]) -> None:
        self.host, self.on_end = host, on_end
        self.doors: list[socket.socket] = []
        self.own_metadata: socket.socket | None = None  # where the host has no network of its own

    def hears(self, event: HostEvent) -> None:
        _HEARD[event.name](self, event)

    def up(self, event: HostEvent) -> None:
        output, own, *doors = event.descriptors
        self.host.namespaces = event.said["namespaces"]
        self.host.process = _number(own)
        os.close(own)
        threading.Thread(target=_follow, args=(output, self.host.instance.name), daemon=True).start()
        self.doors = [socket.socket(fileno=each) for each in doors]
        if self.own_metadata:
            self.doors.append(self.own_metadata)
        else:
            api_proxy.serve(self.doors[0], plan.port(), self.host.instance.subnet)
        metadata.serve(self.doors[-1], self.host)
        host_store.set_state(self.host, "booting")

    def booted(self, _event: HostEvent) -> None:
        host_store.set_state(self.host, "running")
        log.info("host %s has booted", self.host.instance.name)

    def failed(self, event: HostEvent) -> None:
        host_store.set_state(self.host, "failed", event.said["why"])
        log.error("host %s cannot boot: %s", self.host.instance.name, event.said["why"])

    def done(self, event: HostEvent) -> None:
        run_command.ended(event.said["id"], event.said["code"])

    def gone(self, _event: HostEvent) -> None:
        for door in self.doors:
            api_proxy.close(door)
        run_command.host_is_gone(self.host.instance.id)
        has_failed = self.host.state == "failed"  # another one would fail as well
        if not has_failed:
            host_store.set_state(self.host, "dead")
        self.host.ended.set()
        if not has_failed and not self.host.is_expected_to_end:
            log.warning("host %s died", self.host.instance.name)
            self.on_end(self.host)


_HEARD: Mapping[str, Callable[[HostSession, HostEvent], None]] = {
    "up": HostSession.up,
    "booted": HostSession.booted,
    "failed": HostSession.failed,
    "done": HostSession.done,
    "gone": HostSession.gone,
}


def _number(descriptor: int) -> int:
    """Return the pid behind a pidfd as this machine counts it, not as the host does."""
    found = _PROCESS.search(Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii"))
    return int(found[1]) if found else 0


def _follow(descriptor: int, name: str) -> None:
    """Copy what boot and units print to the yard's log."""
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as output:
        for line in output:
            log.info("%s: %s", name, line.rstrip())
