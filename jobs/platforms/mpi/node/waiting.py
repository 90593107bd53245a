"""Holds a job back on the main node until every job that it waits for has succeeded.

The wait is part of the job's command, which Systems Manager ends after two days. A job whose turn comes late
gets a shorter time limit, so that its ranks save and end by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from slipway.containers.runtime.contract import variables
from slipway.jobs.platforms.mpi.awaited import Awaited, find_awaited
from slipway.jobs.platforms.mpi.node.lock import CannotRun
from slipway.jobs.words.job import SHORTEST_TIMEOUT_SECONDS
from slipway.jobs.words.mpi.beginning import begins_line
from slipway.jobs.words.mpi.mpi_job import LONGEST_SECONDS, MpiJob, longest_timeout
from slipway.jobs.words.states import JobState

LOOK_SECONDS = 5.0

Say = Callable[[str], None]


def await_others(
    job: MpiJob,
    region: str,
    say: Say,
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> MpiJob:
    """Return the job as it may begin; refuse it where one of the others failed, or no time is left."""
    if not job.waits_for:
        return job
    began, told = now(), ""
    while left := [each for each in find_awaited(job.waits_for, region) if not _has_succeeded(each)]:
        _refuse_failed(job, left)
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


def _has_succeeded(other: Awaited) -> bool:
    return other.state is JobState.SUCCEEDED


def _refuse_failed(job: MpiJob, others: Sequence[Awaited]) -> None:
    for other in others:
        if other.state is JobState.FAILED:
            raise CannotRun(
                f"{job.name} depends on {other.name}, which failed ({other.status})",
                hint=f"slipway explain {other.name}; when that has succeeded: slipway submit … --again",
            )


def _time_left(job: MpiJob, waited: float) -> int:
    """Return what each attempt may still take."""
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
