"""The process that holds a host which boots systemd: it starts each boot, and runs the yard's orders inside.

It is the first process of a PID namespace around the host's own, so whatever a killed systemd-nspawn leaves
behind ends with it. Standard library only. To add an order of the yard: a method and its line in _ORDERS.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.hosts.inside import cgroups, init, nft_door, nspawn, tree
from slipway.yard.machines.hosts.inside.init import tell
from slipway.yard.machines.isolation import kernel, namespaces, processes

_DESCRIPTORS = 2
_NO_COMMAND = 126
DNS = 53


def become(plan: Mapping[str, Any], yard: socket.socket) -> NoReturn:
    """Turn this process into the one that holds the host; it never returns."""
    output, console = os.pipe()
    awake = namespaces.wake_on_children()
    try:
        root = tree.prepare(plan)
        kernel.mount("proc", Path("/proc"), "proc")
        kernel.mount("run", Path("/run"), "tmpfs", options="mode=755")  # for nspawn's state
        cgroups.enter(plan["cgroup"])
        Path(nft_door.DOOR).parent.mkdir()
        nft_door.open_door(plan["environment"])
        init.share_processors(plan["address"])
        listeners = [
            init.listen(("127.0.0.1", plan["port"])),
            init.listen(init.METADATA),
            init.listen((init.METADATA[0], plan["open_port"])),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        ]
        listeners[-1].bind((plan["resolver"], DNS))
        tell(yard, {"event": "up"}, [output, *(listener.fileno() for listener in listeners)])
        for descriptor in (output, *(listener.detach() for listener in listeners)):
            os.close(descriptor)
        HeldHost(plan, yard, console, root).run(awake)
    finally:
        tell(yard, {"event": "failed", "why": traceback.format_exc()}, [])
        os._exit(1)


@dataclass(slots=True)
class _Inside:
    """A command inside the host. Its deputy, a process out here, waits for it."""

    name: str
    group: int  # the command's process group, in this process's numbers


class HeldHost:
    def __init__(self, plan: Mapping[str, Any], yard: socket.socket, console: int, root: Path) -> None:
        self.plan, self.yard, self.console, self.root = plan, yard, console, root
        self.inside: dict[int, _Inside] = {}
        self.boot = nspawn.start(plan, root, console)

    def run(self, awake: int) -> NoReturn:
        while True:
            notices = self.boot.notices.fileno()
            readable, _, _ = select.select([self.yard.fileno(), awake, notices], [], [])
            if notices in readable:
                self._notice()
            if awake in readable:
                os.read(awake, 4096)
                self._reap()
            if self.yard.fileno() in readable:
                self._obey(*socket.recv_fds(self.yard, init.LARGEST_ORDER, _DESCRIPTORS)[:2])

    def command(self, order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Start a command in the host; a deputy process here waits for it and exits with its code."""
        argv = ("env", *(f"{name}={value}" for name, value in order["environment"].items()), *order["argv"])
        reading, writing = os.pipe()
        deputy = os.fork()
        if deputy == 0:
            os.close(reading)
            _be_deputy(self.boot, argv, self.plan["environment"], descriptors, writing)
        os.close(writing)
        group = int(os.read(reading, 32) or b"0")  # 0 if nothing was started
        os.close(reading)
        self.inside[deputy] = _Inside(order["id"], group)
        for descriptor in descriptors:
            os.close(descriptor)

    def signal(self, order: Mapping[str, Any], _descriptors: Sequence[int]) -> None:
        """Signal the command and all that it started, except what left its process group."""
        for found in self.inside.values():
            if found.name == order["id"] and found.group > 1:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(found.group, order["signal"])

    def shut_down(self, _order: Mapping[str, Any], _descriptors: Sequence[int]) -> None:
        self.boot.signal(nspawn.POWER_OFF)

    def reboot(self, _order: Mapping[str, Any], _descriptors: Sequence[int]) -> None:
        self.boot.signal(nspawn.REBOOT)

    def _notice(self) -> None:
        said = self.boot.read_notice()
        leader = said.get("X_NSPAWN_LEADER_PID")
        if leader and self.boot.take_leader(int(leader)):
            tell(self.yard, {"event": "first", "namespaces": self.boot.namespaces}, [self.boot.systemd])
        if said.get("READY") == "1":
            tell(self.yard, {"event": "booted"}, [])

    def _obey(self, said: bytes, descriptors: list[int]) -> None:
        if not said:  # the yard is gone
            os._exit(0)
        order = json.loads(said)
        _ORDERS[order["do"]](self, order, descriptors)

    def _reap(self) -> None:
        for ended, code in processes.ended_children():
            if ended == self.boot.process:
                self._has_stopped(code)
            elif ended in self.inside:
                tell(self.yard, {"event": "done", "id": self.inside.pop(ended).name, "code": code}, [])

    def _has_stopped(self, code: int) -> None:
        """Start the host again after a reboot, with its disk unchanged; report any other end."""
        self.boot.close()
        if code != nspawn.REBOOTS:
            tell(self.yard, {"event": "stopped", "code": code}, [])
            os._exit(0)
        tell(self.yard, {"event": "reboots"}, [])
        self.boot = nspawn.start(self.plan, self.root, self.console)


_ORDERS: Mapping[str, Callable[[HeldHost, Mapping[str, Any], Sequence[int]], None]] = {
    "command": HeldHost.command,
    "signal": HeldHost.signal,
    "shut-down": HeldHost.shut_down,
    "reboot": HeldHost.reboot,
}


def _be_deputy(
    boot: nspawn.Boot,
    argv: Sequence[str],
    environment: Mapping[str, str],
    output: Sequence[int],
    told: int,
) -> NoReturn:
    code = _NO_COMMAND
    try:
        namespaces.sleep_through_children()
        nspawn.go_inside(boot)
        child = os.fork()
        if child == 0:
            init.replace_with(argv, environment, os.open(os.devnull, os.O_RDONLY), output)
        os.write(told, str(child).encode())
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code < 0:
            _die_of(-code)
    finally:
        os._exit(max(code, 0))


def _die_of(number: int) -> None:
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pause()
