"""A host's first process: boots, keeps units running, runs the yard's commands, and reaps processes.

All modules are loaded before the host's files replace this machine's: nothing may be imported
later. Standard library only. To add an order of the yard: a method and its line in _ORDERS.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.hosts.inside import nft_door, tree
from slipway.yard.machines.isolation import kernel, namespaces, processes

LARGEST_ORDER = 1 << 17
METADATA = ("169.254.169.254", 80)
RESTART_S = 1.0  # RestartSec of our units; doubled each time that a unit ends within SOON_S
LONGEST_RESTART_S = 30.0
SOON_S = 10.0
HOPELESS_S = 8.0  # the pause after three such ends in a row: the unit counts as failed
GOODBYE_S = 2.0  # for all processes to end, when the instance is terminated
# linux/capability.h: NET_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_BOOT, SYS_TIME, MKNOD, SYSLOG. A host's root must
# not change its security groups, load modules into this machine's kernel, set its clock or access its disks.
GIVEN_UP = (12, 16, 17, 22, 25, 27, 34)
_DESCRIPTORS = 2


def become(plan: Mapping[str, Any], yard: socket.socket) -> NoReturn:
    """Turn this process into the host's first one; it never returns."""
    output, log = os.pipe()
    try:
        tree.enter(plan)
        kernel.set_hostname(plan["hostname"])
        share_processors(plan["address"])
        for file, user in plan["users"].items():
            kernel.keep_users(Path(file), user)
        if plan["is_root"]:
            nft_door.open_door(plan["environment"])
        kernel.give_up(GIVEN_UP)
        listeners = [listen(("127.0.0.1", plan["port"])), listen(METADATA)]
        pidfd = os.pidfd_open(os.getpid())
        tell(yard, {"event": "up"}, [output, *(listener.fileno() for listener in listeners)])
        tell(yard, {"event": "first", "namespaces": namespaces.own()}, [pidfd])
        for descriptor in (pidfd, output, *(listener.detach() for listener in listeners)):
            os.close(descriptor)
        Init(plan, yard, log).run(namespaces.wake_on_children())
    finally:
        tell(yard, {"event": "failed", "why": traceback.format_exc()}, [])
        os._exit(1)


def share_processors(address: str) -> None:
    """Pin each host to one processor, in turn: else each rank would start a thread for every processor."""
    usable = sorted(os.sched_getaffinity(0))
    turn = int(address.partition("/")[0].rpartition(".")[2])
    os.sched_setaffinity(0, {usable[turn % len(usable)]})


class Init:
    def __init__(self, plan: Mapping[str, Any], yard: socket.socket, log: int) -> None:
        self.plan, self.yard, self.log = plan, yard, log
        self.steps: list[Sequence[str]] = list(plan["boot"])
        self.boot_log = -1  # descriptor, open while the host boots
        self.failures = Failures(plan)
        self.step = 0  # pid of the running boot step
        self.running_step: Sequence[str] = ()
        self.units: dict[int, Mapping[str, Any]] = {}
        self.began: dict[str, float] = {}  # unit -> its last start
        self.pauses: dict[str, float] = {}  # unit -> seconds before its next start
        self.due: list[tuple[float, Mapping[str, Any]]] = []  # (when, unit) for units that will start again
        self.commands: dict[int, str] = {}  # pid -> the yard's name for the command

    def run(self, awake: int) -> NoReturn:
        # Another process copies the output of boot steps, since a step may leave programs that print.
        source, self.boot_log = os.pipe()
        self._spawn(self.plan["keep_output"], self.log, self.log, source=source)
        os.close(source)
        self._next_step()
        while True:
            first = min((when for when, _ in self.due), default=None)
            pause_s = None if first is None else max(0.0, first - time.monotonic())
            readable, _, _ = select.select([self.yard.fileno(), awake], [], [], pause_s)
            if awake in readable:
                os.read(awake, 4096)
                for ended, code in processes.ended_children():
                    self._ended(ended, code)
            if self.yard.fileno() in readable:
                self._obey(*socket.recv_fds(self.yard, LARGEST_ORDER, _DESCRIPTORS)[:2])
            now = time.monotonic()
            ripe = [unit for when, unit in self.due if when <= now]
            self.due = [(when, unit) for when, unit in self.due if when > now]
            for unit in ripe:
                self._start_unit(unit)

    def command(self, order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        output, errors = descriptors
        argv = (*(f"{name}={value}" for name, value in order["environment"].items()), *order["argv"])
        process = self._spawn(("env", *argv), output, errors, self.plan["as_user"])
        self.commands[process] = order["id"]
        for descriptor in descriptors:
            os.close(descriptor)

    def signal(self, order: Mapping[str, Any], _descriptors: Sequence[int]) -> None:
        """Signal the command and all that it started, except what left its process group."""
        for process, name in self.commands.items():
            if name == order["id"]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process, order["signal"])

    def shut_down(self, _order: Mapping[str, Any], _descriptors: Sequence[int]) -> NoReturn:
        """End as a terminated instance does: send SIGTERM to all processes, and give them a little time."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGTERM)
        self._wait_for_all()
        self.end()

    def end(self) -> NoReturn:
        """Exit: when the first process of a PID namespace ends, the kernel kills all others."""
        os._exit(0)

    def _wait_for_all(self) -> None:
        until = time.monotonic() + GOODBYE_S
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < until:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.01)

    def _next_step(self) -> None:
        """Start the next boot step, also after a failed one as cloud-init does; after the last, the units."""
        if self.steps:
            self.running_step = self.steps.pop(0)
            self.step = self._spawn(self.running_step, self.boot_log, self.boot_log)
            return
        self.step = 0
        os.close(self.boot_log)
        for unit in self.plan["units"]:
            self._start_unit(unit)
        self.failures.look_for_programs()
        self._tell_how_it_went()

    def _tell_how_it_went(self) -> None:
        """Report that the host has booted or failed; a failed host keeps running for users to inspect it."""
        why = self.failures.words
        tell(self.yard, {"event": "failed", "why": why} if why else {"event": "booted"}, [])

    def _start_unit(self, unit: Mapping[str, Any]) -> None:
        if Path(self.plan["masked"], unit["name"]).exists():
            self._note(f"{unit['name']}: is masked")
            return
        if not self.failures.has(unit["argv"][0]):
            return
        self.began[unit["name"]] = time.monotonic()
        self.units[self._spawn(unit["argv"], self.log, self.log, self.plan["as_user"])] = unit

    def _obey(self, message: bytes, descriptors: list[int]) -> None:
        if not message:  # the yard is gone
            self.end()
        order = json.loads(message)
        _ORDERS[order["do"]](self, order, descriptors)

    def _ended(self, process: int, code: int) -> None:
        if process == self.step:
            if code:
                self._note(f"boot: {self.running_step[0]} failed with {code}")
                self.failures.step(self.running_step, code)
            self._next_step()
        elif process in self.units:
            self._unit_ended(self.units.pop(process), code)
        elif process in self.commands:
            tell(self.yard, {"event": "done", "id": self.commands.pop(process), "code": code}, [])

    def _unit_ended(self, unit: Mapping[str, Any], code: int) -> None:
        name, now = unit["name"], time.monotonic()
        is_soon = now - self.began[name] < SOON_S
        before_s = self.pauses.get(name, RESTART_S / 2) if is_soon else RESTART_S / 2
        self.pauses[name] = pause_s = min(2 * before_s, LONGEST_RESTART_S)
        self._note(f"{name}: ended with {code}, starts again in {pause_s:g} s")
        self.due.append((now + pause_s, unit))
        if pause_s >= HOPELESS_S and before_s < HOPELESS_S:
            self.failures.unit(name, code)
            self._tell_how_it_went()

    def _note(self, text: str) -> None:
        os.write(self.log, f"{text}\n".encode())

    def _spawn(
        self, argv: Sequence[str], output: int, errors: int, before: Sequence[str] = (), source: int = -1
    ) -> int:
        child = os.fork()
        if child:
            return child
        with contextlib.suppress(BaseException):
            namespaces.sleep_through_children()
            given = os.open(os.devnull, os.O_RDONLY) if source < 0 else source
            replace_with((*before, *argv), self.plan["environment"], given, (output, errors))
        os._exit(126)


_ORDERS: Mapping[str, Callable[[Init, Mapping[str, Any], Sequence[int]], None]] = {
    "command": Init.command,
    "signal": Init.signal,
    "power-off": lambda host, _order, _descriptors: host.end(),
    "shut-down": lambda host, order, descriptors: host.shut_down(order, descriptors),
}


def replace_with(
    argv: Sequence[str], environment: Mapping[str, str], source: int, output: Sequence[int]
) -> None:
    """Replace this process by the program, in a session of its own."""
    os.setsid()
    for end, target in zip((source, *output), (0, 1, 2), strict=True):
        os.dup2(end, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for number in (signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.chdir("/")
    try:
        os.execvpe(argv[0], list(argv), dict(environment))  # noqa: S606 - no shell reads it
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


def listen(address: tuple[str, int]) -> socket.socket:
    """Listen in this host's network; the yard serves the connections."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(128)
    return listener


def tell(yard: socket.socket, event: Mapping[str, object], descriptors: Sequence[int]) -> None:
    with contextlib.suppress(OSError):
        socket.send_fds(yard, [json.dumps(event).encode()], list(descriptors))


# Collects what went wrong while a host booted, with advice how to mend it.


class Failures:
    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._plan = plan
        self._said: list[str] = []

    @property
    def words(self) -> str:
        """Describe the failures; "" if nothing failed."""
        return "; ".join(dict.fromkeys(self._said))

    def step(self, argv: Sequence[str], code: int) -> None:
        program, log = argv[0], self._plan["keep_output"][-1]
        if self.has(program):
            self._said.append(
                f"at boot {program} ended with {code}; what it said: slipway yard logs, and {log} of the host"
            )

    def unit(self, name: str, code: int) -> None:
        self._said.append(f"{name} ends as soon as it starts, with {code}; what it said: slipway yard logs")

    def has(self, program: str, *others: str) -> bool:
        """Return True if one of the programs is there; if not, note the first name as missing."""
        path = self._plan["environment"]["PATH"]
        if any(shutil.which(name, path=path) for name in (program, *others)):
            return True
        self._said.append(f"{program} is not there; {self._plan['mend']}")
        return False

    def look_for_programs(self) -> None:
        """Look for programs that jobs need although no step and no unit starts them."""
        for names in self._plan["programs"]:
            self.has(*names)
