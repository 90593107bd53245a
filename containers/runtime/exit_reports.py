"""Report how a job ended and why: nodes send each other these reports, and choose the exit code by them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE

_OUT_OF_MEMORY = "out of memory: the kernel ended it; use a smaller micro-batch, or a larger instance type"
_MOST_TAIL_LINES = 30
# C++ prints this if a thread still runs while the interpreter shuts down.
_LIVE_THREAD = "terminate called without an active exception"
_LEAVE_PYTHON_WHOLE = (
    "a thread of a library outlived Python; if it ended after the training, flush what you wrote and end by "
    "os._exit(0), as the train.py of `slipway init` does"
)
# The message of os.fork, and AWS's advice then (aws-samples/awsome-distributed-training, efa-cheatsheet.md).
_NO_MEMORY_TO_FORK = "[Errno 12] Cannot allocate memory"
_HUGE_PAGES = (
    "no memory was left for a process that it started; on nodes with EFA set FI_EFA_USE_HUGE_PAGE=0, "
    "or start fewer workers"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitReport:
    """Say how one rank or the whole job ended, and why."""

    code: int
    reason: str
    rank: int | None = None
    tail: tuple[str, ...] = ()  # the rank's last words
    by_signal: bool = False
    dump: bool = False  # ranks print their stacks before they are stopped

    def to_json(self) -> Json:
        return {**asdict(self), "tail": list(self.tail)[-_MOST_TAIL_LINES:]}


SUCCESS = ExitReport(code=0, reason="all ranks succeeded")


def from_json(value: Json) -> ExitReport:
    """Read the report of a peer in this attempt; a damaged one reads as a failure, never as success."""
    record = value if isinstance(value, dict) else {}
    code, rank, tail = record.get("code"), record.get("rank"), record.get("tail")
    return ExitReport(
        code=code if type(code) is int and 0 <= code <= 255 else 1,
        reason=str(record.get("reason", "a node did not report how it ended")),
        rank=rank if type(rank) is int else None,
        tail=tuple(map(str, tail)) if isinstance(tail, list) else (),
        by_signal=record.get("by_signal") is True,
        dump=record.get("dump") is True,
    )


def of_rank(rank: int, host: str, status: int, tail: Sequence[str], *, out_of_memory: bool) -> ExitReport:
    """Report the end of one rank. `status` comes from waitpid; a signal becomes 128 + its number, as in a
    shell."""
    code = os.waitstatus_to_exitcode(status)
    who = f"rank {rank} on {host}"
    if code >= 0:
        why = f": {_HUGE_PAGES}" if code and any(_NO_MEMORY_TO_FORK in line for line in tail) else ""
        reason = f"{who} ended with exit code {code}{why}"
        return ExitReport(code=code, reason=reason, rank=rank, tail=tuple(tail))
    name = _signal_name(-code)
    why = f": {words}" if (words := _why(-code, tail, out_of_memory=out_of_memory)) else ""
    return ExitReport(
        code=128 - code,
        reason=f"{who} was killed by {name} (exit code {128 - code}){why}",
        rank=rank,
        tail=tuple(tail),
        by_signal=not out_of_memory,
    )


def first_cause(endings: Sequence[ExitReport]) -> ExitReport:
    """Choose the cause among failures that came within a moment.

    A lost node explains all others, and a killed rank explains the exceptions of its peers, whose sockets it
    closed; among equals the first counts.
    """
    return min(endings, key=lambda ending: (ending.rank is not None, not ending.by_signal))


def after_stop(endings: Sequence[ExitReport], *, resumes: bool = False) -> ExitReport:
    """Choose the report of ranks that were all asked to stop: a rank that saved says 85 and outweighs peers
    whose collectives broke.

    `resumes` says that their machine was taken away, so that no rank is to blame.
    """
    saved = [ending for ending in endings if ending.code == RESUMABLE_EXIT_CODE]
    failed = [ending for ending in endings if ending.code != 0]
    found = next(iter(saved or failed), SUCCESS)
    if resumes and found.code not in (0, RESUMABLE_EXIT_CODE):
        return replace(found, code=RESUMABLE_EXIT_CODE, reason=f"{found.reason}; the next attempt resumes")
    return found


def _why(number: int, tail: Sequence[str], *, out_of_memory: bool) -> str:
    if out_of_memory:
        return _OUT_OF_MEMORY
    has_live_thread = number == signal.SIGABRT and any(_LIVE_THREAD in line for line in tail)
    return _LEAVE_PYTHON_WHOLE if has_live_thread else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
