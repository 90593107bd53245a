"""Computes how many sequences a second a cluster trains on, and fits two numbers to a measured row.

Both fits invert the whole step, so that the row on which they are fitted is met exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.work.shapes import (
    LARGEST_AMOUNT,
    MOST_UTILISATION,
    Calibration,
    Hardware,
    Layout,
    Model,
    accumulation,
    replicas,
)
from slipway.jobs.estimate.work.spread import interval_of, origin_of, spread
from slipway.jobs.estimate.work.step import StepTime, step
from slipway.jobs.estimate.work.work import training_flops

_HALVINGS = 40  # of the interval from 0 to 1: far more precise than any measurement
_LEAST = 1e-6
_NOTHING = Calibration()


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    sequences_per_second: float
    tokens_per_second: float
    sequences_per_second_per_device: float
    sequences_per_step: int
    step: StepTime
    spread: float  # half the width of the interval of nine of ten rates, in logarithms (spread.py)
    mfu: float  # training FLOPs of the model over the peak of all devices, with waiting included

    @property
    def interval(self) -> tuple[float, float]:
        """Return the sequences a second between which nine of ten such rates lie."""
        return interval_of(self.sequences_per_second, self.spread)


def throughput(
    model: Model, cluster: Hardware, layout: Layout, calibration: Calibration | None = None
) -> Throughput:
    """Estimate the throughput; a None in `calibration` is replaced by the prior of the hardware's class."""
    known = calibration or _NOTHING
    taken = step(model, cluster, layout, known)
    copies = replicas(model, cluster, layout)
    sequences = copies * layout.micro_batch * accumulation(model, cluster, layout, copies)
    rate = sequences / taken.seconds
    return Throughput(
        sequences_per_second=rate,
        tokens_per_second=rate * model.sequence_length,
        sequences_per_second_per_device=rate / cluster.devices,
        sequences_per_step=sequences,
        step=taken,
        spread=spread(model, cluster, layout, known.origin),
        mfu=rate * training_flops(model) / (cluster.devices * cluster.peak_flops),
    )


def fit_utilisation(
    model: Model,
    cluster: Hardware,
    layout: Layout,
    *,
    sequences_per_second: float,
    network_efficiency: float | None = None,
) -> Calibration:
    """Return the utilisation with which the model gives this measured rate.

    A rate beyond what the network's prior allows is fitted with a perfect network; only one beyond the peak
    of the devices themselves is refused.
    """
    _refuse_rate(sequences_per_second)
    origin = origin_of(model, cluster, layout)
    for efficiency in dict.fromkeys((network_efficiency, network_efficiency or 1.0)):
        tried = Calibration(network_efficiency=efficiency, origin=origin)
        found = _solve(
            lambda utilisation, tried=tried: (
                throughput(  # type: ignore[misc]  # mypy knows no such default
                    model, cluster, layout, replace(tried, utilisation=utilisation)
                ).sequences_per_second
            ),
            sequences_per_second,
            most=MOST_UTILISATION,
        )
        if found is not None:
            return replace(tried, utilisation=found)
    best = throughput(model, cluster, layout, Calibration(utilisation=1.0, network_efficiency=1.0))
    peak = best.sequences_per_step / (best.step.compute + best.step.bubble)
    if sequences_per_second > peak * MOST_UTILISATION:
        raise CannotEstimate(
            f"{sequences_per_second:g} sequences a second are more than these devices can compute ({peak:g} "
            f"at their full peak; allowed are {peak * MOST_UTILISATION:g})",
            hint="check peak_flops, the number of devices, and that the row counts sequences, not tokens",
        )
    return replace(tried, utilisation=MOST_UTILISATION)


def fit_network_efficiency(
    model: Model, cluster: Hardware, layout: Layout, *, sequences_per_second: float, utilisation: float
) -> Calibration:
    """Fit the network efficiency to a row of more nodes, given the utilisation of a smaller one."""
    _refuse_rate(sequences_per_second)
    own = Calibration(utilisation=utilisation)

    def rate(efficiency: float) -> float:
        tried = replace(own, network_efficiency=efficiency)
        return throughput(model, cluster, layout, tried).sequences_per_second

    found = _solve(rate, sequences_per_second)
    if found is None:
        raise CannotEstimate(
            f"{sequences_per_second:g} sequences a second are more than utilisation {utilisation:g} gives "
            f"on a perfect network ({rate(1.0):g})",
            hint="the row is bound by computing: take the network efficiency from another table of the class",
        )
    return replace(own, network_efficiency=found, origin=origin_of(model, cluster, layout))


def _solve(rate: Callable[[float], float], wanted: float, *, most: float = 1.0) -> float | None:
    """Find the number that gives the wanted rate, by bisection: rates grow with both fitted numbers."""
    if rate(most) < wanted:
        return None
    low, high = _LEAST, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) < wanted else (low, middle)
    return high


def _refuse_rate(sequences_per_second: float) -> None:
    if not 0 < sequences_per_second < LARGEST_AMOUNT:  # also refuses nan
        raise CannotEstimate(
            f"sequences_per_second is {sequences_per_second!r}; it must be more than 0 and below "
            f"{LARGEST_AMOUNT:g}",
            hint="measure a run",
        )
