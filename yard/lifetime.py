"""End the yard together with the process that it was started for, however that one ended.

A script or a test names that process in its environment; what a person starts goes on until `yard down`.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from slipway.yard.state import process_identity, remove_made

OWNER_VARIABLE = "SLIPWAY_YARD_UNTIL_EXIT_OF"
POLL_S = 1.0


def end_with_owner(folder: Path) -> None:
    """Without an owner this is a no-op. Otherwise the yard stops after its owner and removes what it made."""
    owner = os.environ.get(OWNER_VARIABLE)
    if not owner:
        return
    if not (owner.isascii() and owner.isdecimal() and int(owner) > 0):
        raise SystemExit(
            f"{OWNER_VARIABLE} is '{owner}', not the number of a process; set it to one or unset it"
        )
    wait = _wait_for_end(int(owner))

    def follow() -> None:
        wait()
        atexit.register(remove_made, folder)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="owner", daemon=True).start()


def _wait_for_end(pid: int) -> Callable[[], object]:
    """What returns when the process has ended. It is found now: later its number may be another's."""
    if not hasattr(os, "pidfd_open"):
        return _poll(pid)
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return lambda: None
    return lambda: select.select([descriptor], [], [])


def _poll(pid: int) -> Callable[[], object]:
    """Where the system has no descriptors of processes (macOS)."""
    identity = process_identity(pid)

    def wait() -> None:
        while identity and process_identity(pid) == identity:
            time.sleep(POLL_S)

    return wait
