"""Runs one job at a time, by the lock of the cluster: a file on its main node that names its holder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from slipway.containers.runtime.contract import variables
from slipway.jobs.platforms.mpi.main_node import find_awaited
from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import SHORTEST_TIMEOUT_SECONDS
from slipway.jobs.words.mpi import LONGEST_SECONDS, MpiJob, begins_line, longest_timeout
from slipway.jobs.words.run import JobState

CHECK = "slipway-check"  # the job name of the all-reduce of all nodes
_CHECK_SECONDS = 180.0  # the longest time of an all-reduce
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
                raise CannotRun(
                    f"{holder} runs on this cluster, which runs one job at a time",
                    hint=f"wait for it (slipway logs {holder} --follow) or end it (slipway cancel {holder})",
                ) from None
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _read(lock: int) -> str:
    return os.pread(lock, _LONGEST_NAME, 0).decode(errors="replace")


# Makes a job wait on the main node until every job that it waits for has succeeded. The wait is part of the
# job's command, which Systems Manager ends after two days. So a job that starts late gets a shorter time
# limit, by which its ranks save and end by themselves.
LOOK_SECONDS = 5.0

Say = Callable[[str], None]


def await_others(
    job: MpiJob,
    region: str,
    say: Say,
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> MpiJob:
    """Return the job as it may begin; refuse it if another one failed, or no time is left."""
    if not job.waits_for:
        return job
    began, told = now(), ""
    while left := [
        each for each in find_awaited(job.waits_for, region) if each.state is not JobState.SUCCEEDED
    ]:
        if failed := next((each for each in left if each.state is JobState.FAILED), None):
            raise CannotRun(
                f"{job.name} depends on {failed.name}, which failed ({failed.status})",
                hint=f"slipway explain {failed.name}; after that, the same command with --again",
            )
        words = ", ".join(f"{each.name} ({each.status})" for each in left)
        if _time_left(job, now() - began) < SHORTEST_TIMEOUT_SECONDS:
            raise CannotRun(
                f"{job.name} waited for {words} as long as Systems Manager lets a command run, two days",
                hint="submit it --again when the others have succeeded",
            )
        if words != told:
            say(f"waits for {words} to succeed first")
            told = words
        pause(LOOK_SECONDS)
    say(begins_line(datetime.now(UTC)))
    return _with_time_left(job, now() - began, say)


def _time_left(job: MpiJob, waited: float) -> int:
    """Return the time limit that each attempt still has."""
    return longest_timeout(LONGEST_SECONDS - int(waited), job.attempts)


def _with_time_left(job: MpiJob, waited: float, say: Say) -> MpiJob:
    seconds = _time_left(job, waited)
    if seconds >= job.timeout_seconds:
        return job
    say(
        f"may take {seconds} s an attempt, not {job.timeout_seconds}: Systems Manager ends a command after "
        "two days, its wait included"
    )
    environment = {**job.environment, variables.TIMEOUT_SECONDS: str(seconds)}
    return replace(job, timeout_seconds=seconds, environment=environment)
