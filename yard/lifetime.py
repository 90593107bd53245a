"""Stop the yard when the process that it was started for has exited, however that happened.

A script or a test names that process in its environment; otherwise the yard runs until `yard down`.
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
    """Stop the yard and delete what it made when its owner exits; without an owner this is a no-op."""
    owner = os.environ.get(OWNER_VARIABLE)
    if not owner:
        return
    if not (owner.isascii() and owner.isdecimal() and int(owner) > 0):
        raise SystemExit(
            f"{OWNER_VARIABLE} is '{owner}', which is not a process id; set it to one, or unset it"
        )
    wait = _wait_for_end(int(owner))

    def follow() -> None:
        wait()
        atexit.register(remove_made, folder)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="owner", daemon=True).start()


def _wait_for_end(pid: int) -> Callable[[], object]:
    """Return a function that waits for the process to end. It looks the pid up now, before it is reused."""
    if not hasattr(os, "pidfd_open"):
        return _poll(pid)
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return lambda: None
    return lambda: select.select([descriptor], [], [])


def _poll(pid: int) -> Callable[[], object]:
    """Wait by polling, for systems without process descriptors (macOS)."""
    identity = process_identity(pid)

    def wait() -> None:
        while identity and process_identity(pid) == identity:
            time.sleep(POLL_S)

    return wait
