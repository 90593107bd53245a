"""What a person should know of modes that no plan uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipway.jobs.plan.search.model import Mode, PlanJob
from slipway.jobs.plan.search.refusals import quoted, words_of

_MOST_TOLD = 3


def left_out(jobs: Sequence[PlanJob]) -> list[str]:
    """Tell of modes that are slower than one with fewer devices; the first few by name."""
    found = [line for job in jobs for line in _slower(job)]
    more = len(found) - _MOST_TOLD
    return [*found[:_MOST_TOLD], f"{more} more modes are left out for the like"] if more > 0 else found


def _slower(job: PlanJob) -> Iterator[str]:
    for mode in job.modes:
        fewer = [each for each in job.modes if _beats(each, mode)]
        if fewer:
            least = min(fewer, key=lambda each: each.devices)
            where = f"job {quoted(job.name)}: {words_of(mode)}"
            yield f"{where} is left out: with {least.devices} it takes no longer"


def _beats(other: Mode, mode: Mode) -> bool:
    return other.type == mode.type and other.devices < mode.devices and other.seconds <= mode.seconds
