"""How a job goes back to the queue, by its own batch script: Slurm's own requeue has no limit."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from slipway.jobs.platforms.slurm.node import programs
from slipway.jobs.platforms.slurm.node.programs import DeadController

_PATIENCE_SECONDS = 600.0  # for a controller that is being replaced
_ASK_AGAIN_SECONDS = 10.0
_TAKEN_SECONDS = 120.0  # in which Slurm ends this script, once it has the job again


def requeue(job: str, say: Callable[[str], None], pause: Callable[[float], None] = time.sleep) -> None:
    """Give the job back to the queue and wait to be ended; return only if Slurm does not do that."""
    signal.signal(
        signal.SIGTERM, signal.SIG_DFL
    )  # as Slurm ends it; who ignores that is killed after KillWait
    ends = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            programs.ask(["scontrol", "requeue", job])
        except DeadController as error:
            if time.monotonic() > ends:
                raise
            say(f"[run] warning: {error.message}; the job's next attempt waits for it")
            pause(_ASK_AGAIN_SECONDS)
        else:
            pause(_TAKEN_SECONDS)
            return
