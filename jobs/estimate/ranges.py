"""What an estimate may come to: nine of ten lie between the two ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipway.jobs.estimate.priors import STARTUP_SECONDS
from slipway.jobs.estimate.work.spread import interval_of

_SECONDS_PER_HOUR = 3600.0
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Hold the least and the most of each; None where the number itself is not known."""

    sequences_per_second: Ends
    hours: Ends | None
    usd: Ends | None


def ranges_of(rate: float, spread: float, hours: float | None, usd_per_hour: float | None) -> Ranges:
    """Return the ranges: what a rate may be off by is off in its time, but for the start."""
    time = None
    if hours is not None:
        start = STARTUP_SECONDS / _SECONDS_PER_HOUR
        least, most = interval_of(hours - start, spread)
        time = least + start, most + start
    paid = None if time is None or usd_per_hour is None else (time[0] * usd_per_hour, time[1] * usd_per_hour)
    return Ranges(sequences_per_second=interval_of(rate, spread), hours=time, usd=paid)


def band_of(spread: float) -> float:
    """Return how far off the farther end is, as a share."""
    return math.expm1(spread)
