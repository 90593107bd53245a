"""The yard's side of an attempt's processes: starts isolation/cluster.py and communicates with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slipway.yard import state
from slipway.yard.endpoint import own_endpoint
from slipway.yard.machines import api_proxy
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import Tier
from slipway.yard.machines.settings import CHECKOUT, needed, stop_seconds

LARGEST_EVENT = 65536
MODULE = "slipway.yard.services.batch.isolation.cluster"
_DESCRIPTORS = 4  # at most, with one event


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """An event: `forked` has the node's output, `ready` its listener for the yard, `exited` its code."""

    name: str
    node: int
    code: int | None
    descriptors: tuple[int, ...]


def write_plan(folder: Path, tier: Tier, nodes: Sequence[Mapping[str, Any]]) -> Path:
    """Write the plan of these nodes; return the file, which isolation/cluster.py reads."""
    plan = {
        "tier": tier.name,
        "isolated": tier.isolated,
        "port": urlsplit(own_endpoint()).port,
        "keep": needed(),
        "home": home.plan(needed(), state.home()),
        "nodes": nodes,
    }
    file = folder / "plan.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    return file


class AttemptProcesses:
    def __init__(self, plan_file: Path, nodes: int) -> None:
        self._alive = set(range(nodes))
        self._lock = threading.Lock()
        self._timers: list[threading.Timer] = []
        self._readers: list[threading.Thread] = []
        self._doors: list[socket.socket] = []
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(CHECKOUT)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-m", MODULE, str(plan_file), str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def events(self) -> Iterator[NodeEvent]:
        """Yield events until the last node has ended or the cluster's process is gone."""
        while self._alive:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, LARGEST_EVENT, _DESCRIPTORS)
            except OSError:
                return
            if not data:
                return
            said: dict[str, Any] = json.loads(data)
            if said["event"] == "exited":
                with self._lock:
                    self._alive.discard(said["node"])
            yield NodeEvent(
                name=said["event"],
                node=said["node"],
                code=said.get("code"),
                descriptors=tuple(descriptors),
            )

    def read_by(self, reader: threading.Thread) -> None:
        """Register a reader of a node's output: close() waits until it has read the last line."""
        self._readers.append(reader)

    def open_doors(self, event: NodeEvent, endpoint: str, subnet: str) -> None:
        """Serve the yard's API at the listeners of the event."""
        for descriptor in event.descriptors:
            door = socket.socket(fileno=descriptor)
            self._doors.append(door)
            api_proxy.serve(door, urlsplit(endpoint).port or 0, subnet)

    def stop(self) -> None:
        """Send SIGTERM now, and SIGKILL later to what still runs."""
        with self._lock:
            wanted = sorted(self._alive)
        self.signal(wanted, signal.SIGTERM)
        self.later(stop_seconds(), self.signal, wanted, signal.SIGKILL)

    def kill(self, node: int) -> None:
        self.signal([node], signal.SIGKILL)

    def signal(self, nodes: Sequence[int], number: int) -> None:
        with suppress(OSError):
            self._socket.send(json.dumps({"nodes": list(nodes), "signal": int(number)}).encode())

    def later(self, seconds: float, act: Any, *arguments: Any) -> None:
        """Call `act` after this time, unless close() comes first."""
        timer = threading.Timer(seconds, act, arguments)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def close(self) -> None:
        """End all remaining processes."""
        for timer in self._timers:
            timer.cancel()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait()
        self._socket.close()
        for reader in self._readers:  # all writers have ended, so these end, too
            reader.join()
        for door in self._doors:
            api_proxy.close(door)
