"""Why a job is as it is, in a sentence and with what to do; and what exit codes mean on every platform.

Exit codes: signal(7), and containers/runtime/errors.py for our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    sentence: str
    fix: str  # empty where there is nothing to do
    evidence: tuple[str, ...]  # AWS's own words


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    pattern: str  # searched in what AWS says
    means: str
    fix: str


def in_attempt(number: int | None, allowed: int | None) -> str:
    """Return in which attempt a job failed, as far as it was counted; empty where it was not."""
    if not number:
        return ""
    of_all = f" of {allowed}" if allowed else ""
    return f" in attempt {number}{of_all}{', the last' if number == allowed else ''}"


_LOGS = "look at its log: slipway logs {job}"

# What a process says by its exit code, where AWS says no more than "Essential container in task exited".
EXIT_CODES: Mapping[int, Reason] = {
    1: Reason(pattern="1", means="the program failed", fix=_LOGS),
    2: Reason(pattern="2", means="the program refused what it was given", fix=_LOGS),
    85: Reason(
        pattern="85",
        means="its machines failed it",
        fix="slipway logs {job} says which; `slipway submit … --again --checkpoints …` resumes",
    ),
    126: Reason(
        pattern="126", means="its command could not be run", fix="slipway build {image} --on {target}"
    ),
    127: Reason(
        pattern="127", means="its command is not in the image", fix="slipway build {image} --on {target}"
    ),
    134: Reason(pattern="134", means="the program aborted", fix=_LOGS),
    137: Reason(
        pattern="137",
        means="the program was killed, most often because memory ran out",
        fix="set a smaller micro_batch or fewer workers; look at its log: slipway logs {job}",
    ),
    139: Reason(pattern="139", means="the program crashed (segmentation fault)", fix=_LOGS),
    143: Reason(pattern="143", means="the program was told to end", fix=_LOGS),
}
