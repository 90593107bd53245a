"""Waits for a training from Python and returns what it reported, as `slipway curve` shows it."""

from __future__ import annotations

from slipway.jobs.submit.curve import Point, points
from slipway.jobs.submit.find import find_run, targets_to_search
from slipway.jobs.submit.logs import Wanted, follow_lines
from slipway.jobs.words.errors import SlipwayError


def curve(job: str, on: str | None = None) -> list[Point]:
    """Wait until the job ends, and return the steps that it reported with their loss and rate."""
    found = find_run(job, targets_to_search(on, None))
    reported = points(line.text for line in follow_lines(found, Wanted(rank=0), to_end=True))
    if not reported:
        raise SlipwayError(
            f"job '{found.run.name}' ended without having reported a step",
            hint=f"slipway explain {found.run.name}",
        )
    return reported
