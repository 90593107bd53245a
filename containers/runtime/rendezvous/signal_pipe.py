"""Signals, as something a loop can wait for: the kernel's interruption becomes a byte in a pipe."""

from __future__ import annotations

import os
import signal
from types import FrameType

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
