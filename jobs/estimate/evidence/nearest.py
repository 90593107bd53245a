"""The row of other people that is nearest to a configuration, on the same accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.evidence.asked import Asked
from slipway.jobs.estimate.evidence.other_rows import Published, other_rows
from slipway.jobs.estimate.priors import prior
from slipway.jobs.estimate.work.rate import fit_utilisation
from slipway.jobs.estimate.work.shapes import MeasuredAt
from slipway.jobs.estimate.work.spread import distance, origin_of, prior_spread


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestRow:
    row: Published
    origin: MeasuredAt
    utilisation: float
    spread: float  # of the configuration that is asked for


def nearest_row(asked: Asked, others: tuple[Published, ...] | None = None) -> NearestRow | None:
    """Return the nearest row of `others` (None: of all) on the asked accelerator, if it beats the prior."""
    accelerator = prior(asked.cluster).accelerator
    known = _by_accelerator() if others is None else _sorted(others)
    found = [
        (distance(asked.model, asked.cluster, asked.layout, origin), index)
        for index, (_, origin) in enumerate(known.get(accelerator, ()))
    ]
    most = prior_spread(asked.cluster)
    for far, index in sorted(found):
        if far >= most:
            return None
        row, origin = known[accelerator][index]
        utilisation = _utilisation(row)
        if utilisation is not None:
            return NearestRow(row=row, origin=origin, utilisation=utilisation, spread=far)
    return None


Rows = dict[str, list[tuple[Published, MeasuredAt]]]


@lru_cache(maxsize=1)
def _by_accelerator() -> Rows:
    return _sorted(other_rows())


@lru_cache(maxsize=64)
def _sorted(rows: tuple[Published, ...]) -> Rows:
    found: Rows = {}
    for row in rows:
        if accelerator := prior(row.asked.cluster).accelerator:
            of = row.asked
            origin = origin_of(of.model, of.cluster, of.layout, is_own=False)
            found.setdefault(accelerator, []).append((row, origin))
    return found


@lru_cache(maxsize=512)
def _utilisation(row: Published) -> float | None:
    """Fit the row; None if it goes beyond what its hardware is said to do."""
    of = row.asked
    try:
        fitted = fit_utilisation(
            of.model, of.cluster, of.layout, sequences_per_second=row.sequences_per_second
        )
    except CannotEstimate:
        return None
    return fitted.utilisation
