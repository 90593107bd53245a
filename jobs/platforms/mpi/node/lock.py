"""One job at a time: the lock of the cluster, a file on its main node. Who holds it is written into it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.words.errors import SlipwayError

CHECK = "slipway-check"  # what the all-reduce of all nodes is called among jobs
_CHECK_SECONDS = 180.0  # in which that is over
_PAUSE_SECONDS = 0.5
_LONGEST_NAME = 256


class CannotRun(SlipwayError):
    """The job cannot run; trying again would end the same."""

    exit_code = 2


@contextmanager
def lock_cluster(where: NodePaths, job: str, patience_seconds: float = 0.0) -> Iterator[int]:
    """Hold the lock of the cluster as the jobs' user. mpirun inherits it, so it lasts as long as the job."""
    where.lock.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take(lock, patience_seconds)
        os.ftruncate(lock, 0)
        os.pwrite(lock, job.encode(), 0)
        yield lock
    finally:
        os.close(lock)


def last_holder(where: NodePaths) -> str | None:
    """Return who last held the lock; None while it is held. Root may call it: it only reads."""
    try:
        lock = os.open(where.lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _read(lock)
    except BlockingIOError:
        return None
    finally:
        os.close(lock)


def _take(lock: int, patience_seconds: float) -> None:
    ends = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(lock) or "another job"
            if time.monotonic() > ends + (_CHECK_SECONDS if holder == CHECK else 0.0):
                raise _busy(holder) from None
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _read(lock: int) -> str:
    return os.pread(lock, _LONGEST_NAME, 0).decode(errors="replace")


def _busy(holder: str) -> CannotRun:
    return CannotRun(
        f"{holder} runs on this cluster, which runs one job at a time",
        hint=f"wait for it (slipway logs {holder} --follow) or end it (slipway cancel {holder})",
    )
