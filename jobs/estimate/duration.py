"""From a rate to a job: seconds, dollars, tokens per dollar. None where a price is not known, never zero."""

from __future__ import annotations

import math

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.priors import STARTUP_SECONDS
from slipway.jobs.estimate.work.rate import Throughput

_SECONDS_PER_HOUR = 3600


def steps_of(examples: int, epochs: int, sequences_per_step: int) -> int:
    """Return how many steps the epochs take; an epoch's last step may be smaller, and takes as long."""
    return math.ceil(examples / sequences_per_step) * epochs


def job_seconds(rate: Throughput, steps: int) -> float:
    return STARTUP_SECONDS + steps * rate.step.seconds


def dollars(seconds: float, nodes: int, usd_per_node_hour: float | None) -> float | None:
    if usd_per_node_hour is None:
        return None
    return seconds / _SECONDS_PER_HOUR * nodes * usd_per_node_hour


def tokens_per_dollar(
    sequences_per_second: float, sequence_length: int, usd_per_hour: float | None
) -> int | None:
    """Return the tokens that a dollar buys. `usd_per_hour` is the price of the whole cluster."""
    if usd_per_hour is None:
        return None
    if usd_per_hour <= 0:
        raise CannotEstimate(f"a price of {usd_per_hour} dollars an hour cannot be", hint="give what is paid")
    return round(sequences_per_second * sequence_length * _SECONDS_PER_HOUR / usd_per_hour)
