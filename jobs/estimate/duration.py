"""From a rate to a job: seconds, dollars, tokens per dollar. None where a price is not known, never zero."""

from __future__ import annotations

from slipway.containers.training.layout import at_most, steps_of_epoch
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.priors import STARTUP_SECONDS
from slipway.jobs.estimate.work.rate import Throughput
from slipway.jobs.estimate.work.workloads import Workload

_SECONDS_PER_HOUR = 3600


def steps_of(examples: int, epochs: int, sequences_per_step: int) -> int:
    """Return how many steps the epochs take; an epoch's last step may be smaller, and takes as long."""
    return steps_of_epoch(examples, sequences_per_step, keeps_rest=True) * epochs


def steps_of_workload(workload: Workload, sequences_per_step: int) -> int | None:
    """Return how many steps a job takes, counted as its recipe counts them; None if it has no known end."""
    if workload.sequences is None:
        return workload.steps
    whole = steps_of(workload.sequences // workload.epochs, workload.epochs, sequences_per_step)
    return at_most(whole, workload.steps)


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
