"""A tiny process that outlives the launcher by a moment: if that is killed, it ends all that was started.

Each rank also dies with the launcher (linux.die_with_parent), but not the processes that the rank started:
those are known by their process group, or, in a session of their own, by what they inherited.
"""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import suppress

from slipway.containers.runtime import linux


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
