"""Start, signal and reap the ranks of one node, and leave none of their processes behind."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from slipway.containers.runtime import exit_reports, linux
from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.exit_reports import ExitReport
from slipway.containers.runtime.linux import Machine
from slipway.containers.runtime.observe.log_pump import LogPump

_LAST_WORDS_SECONDS = 0.5
_SWEEP_SECONDS = 3.0
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCommand:
    """Say what to start for one rank."""

    rank: int
    module: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


class Team:
    """Start, signal and reap the ranks of one node."""

    def __init__(self, machine: Machine, guard: Guard, pump: LogPump) -> None:
        self._machine = machine
        self._pump = pump
        self.say = pump.say
        self.say_for = pump.say_for
        self._processes: dict[int, subprocess.Popen[bytes]] = {}  # running, by process id
        self._ranks: dict[int, int] = {}  # all ever started: process id to rank
        self._guard = guard
        self._memory_kills = linux.memory_kills(machine.root)
        linux.adopt_orphans()

    def start(self, command: RankCommand) -> None:
        environment = {**command.environment, variables.LAUNCHER: str(os.getpid())}
        environment[variables.LAUNCHED] = self._guard.mark
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "slipway.containers.runtime.launch.rank",
                command.module,
                *command.arguments,
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._guard.add(process.pid)
        self._processes[process.pid] = process
        self._ranks[process.pid] = command.rank
        self._pump.carry(command.rank, os.dup(process.stdout.fileno()), os.dup(process.stderr.fileno()))
        process.stdout.close()
        process.stderr.close()

    def running(self) -> dict[int, int]:
        """Return the process ids of the running ranks, by rank."""
        return {self._ranks[pid]: pid for pid in self._processes}

    def reap(self) -> list[ExitReport]:
        """Return how ranks ended since the last call, in order; also reap strangers, as process 1 must."""
        found = []
        with suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = reaped
                if (process := self._processes.pop(pid, None)) is not None:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    found.append(self._ending(self._ranks[pid], status))
        return found

    def signal(self, number: int) -> None:
        """Signal only the ranks: if a data loader's worker died of the signal, the checkpoint would fail."""
        for pid in self._processes:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Kill the running ranks and their process groups.

        The process id of a reaped rank may belong to another process by now; `end` finds what it left behind.
        """
        for pid in self._processes:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill whatever the ranks left behind, even in sessions of its own. Call it after the last rank
        has ended."""
        self.kill()
        ends = time.monotonic() + _SWEEP_SECONDS
        while time.monotonic() < ends:  # one waiting for a dead disk never ends
            strays = [pid for pid in linux.children(self._machine.root) if pid != self._guard.pid]
            if not strays:
                break
            for pid in strays:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE_SECONDS)
            self.reap()
        self._guard.dismiss()

    def _ending(self, rank: int, status: int) -> ExitReport:
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        out_of_memory = killed and linux.memory_kills(self._machine.root) > self._memory_kills
        words = self._pump.last_words(rank, _LAST_WORDS_SECONDS)
        return exit_reports.of_rank(rank, self._machine.host(), status, words, out_of_memory=out_of_memory)


# The guard is a tiny process that outlives the launcher: if the launcher is killed, it ends all processes.
# Each rank also dies with the launcher (linux.die_with_parent), but not the processes that the rank started:
# those are known by their process group, or, in a session of their own, by what they inherited.


class Guard:
    """Kill the process groups of a launcher that died. It starts before any thread, and waits for the end
    of a pipe."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)  # in the environment of all that is guarded
        read_end, self._write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _watch(read_end, self._write_end, self.mark)
        os.close(read_end)

    def add(self, group: int) -> None:
        """Add a process group that must not outlive the launcher."""
        with suppress(BrokenPipeError):
            os.write(self._write_end, b"%d\n" % group)

    def dismiss(self) -> None:
        """End the guard: nothing is left to guard."""
        with suppress(OSError):
            os.write(self._write_end, b"done\n")
        os.close(self._write_end)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _watch(read_end: int, write_end: int, mark: str) -> None:
    try:
        os.close(write_end)
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        with os.fdopen(read_end, "rb") as pipe:
            lines = pipe.read().split()
        if b"done" not in lines:
            for line in lines:
                with suppress(ProcessLookupError):
                    os.killpg(int(line), signal.SIGKILL)
            linux.kill_marked(mark)
    finally:
        os._exit(0)
