"""Finds the published row nearest to a configuration, on the same accelerator, and those about as near.

other_rows.csv has the rows; a user's own come with them in an Evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.evidence.measurements import Asked, Measurement
from slipway.jobs.estimate.evidence.named_hardware import at_precision, hardware_named
from slipway.jobs.estimate.evidence.published_rows import (
    Published,
    PublishedLine,
    decode_lines,
    decode_published,
    published_lines,
)
from slipway.jobs.estimate.hardware import prior
from slipway.jobs.estimate.work.rate import fit_utilisation, throughput
from slipway.jobs.estimate.work.shapes import Calibration, Hardware, MeasuredAt
from slipway.jobs.estimate.work.spread import distance, origin_of, prior_spread

_MET = 0.99  # share of its rate at which a row counts as met
# One row has its own software and its own day, so rows that are farther by less than _ALIKE are averaged with
# it; one that is 1 / _FALL farther weighs a third. Estimates were 9.8 % off without them, and 9.3 with.
_ALIKE, _FALL, _MOST_ALIKE = 0.1, 10.0, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestRow:
    row: Published
    origin: MeasuredAt
    calibration: Calibration
    spread: float  # of the requested configuration
    alike: int = 0  # other rows averaged in its utilisation


ByAccelerator = Mapping[str, Sequence[tuple[Published, MeasuredAt]]]


def nearest_row(asked: Asked, others: tuple[Published, ...] | None = None) -> NearestRow | None:
    """Return the nearest row of `others` (None: of all) on this accelerator, if it beats the prior."""
    return nearest_of(_shipped(_accelerator(asked.cluster)) if others is None else _sorted(others), asked)


def nearest_of(known: ByAccelerator, asked: Asked) -> NearestRow | None:
    rows = known.get(_accelerator(asked.cluster), ())
    found = [
        (distance(asked.model, asked.cluster, asked.layout, origin), index)
        for index, (_, origin) in enumerate(rows)
    ]
    near = _fitted_within(rows, sorted(found), prior_spread(asked.cluster))
    if not near:
        return None
    first = near[0]
    if _is_same(first.row.asked, asked):
        return first
    # The mean utilisation of all, weighted by distance.
    weights = [math.exp(-_FALL * (each.spread - first.spread)) for each in near]
    logarithms = [math.log(each.calibration.utilisation or math.inf) for each in near]
    mean = math.exp(math.fsum(map(math.prod, zip(weights, logarithms, strict=True))) / math.fsum(weights))
    return replace(first, calibration=replace(first.calibration, utilisation=mean), alike=len(near) - 1)


def _fitted_within(
    rows: Sequence[tuple[Published, MeasuredAt]], found: Sequence[tuple[float, int]], most: float
) -> list[NearestRow]:
    """Return the nearest row that can be followed, and those that are about as near."""
    near: list[NearestRow] = []
    for far, index in found:
        if far >= most or (near and far >= near[0].spread + _ALIKE):
            break
        row, origin = rows[index]
        calibration = _fitted(row)
        if calibration is not None:
            near.append(NearestRow(row=row, origin=origin, calibration=calibration, spread=far))
        if len(near) > _MOST_ALIKE:
            break
    return near


def by_accelerator(rows: Sequence[Published]) -> ByAccelerator:
    found: dict[str, list[tuple[Published, MeasuredAt]]] = {}
    for row in rows:
        of = row.asked
        origin = origin_of(of.model, of.cluster, of.layout, is_own=row.is_own)
        found.setdefault(_accelerator(of.cluster), []).append((row, origin))
    return found


@lru_cache(maxsize=64)
def _shipped(accelerator: str) -> ByAccelerator:
    """Decode the rows of this accelerator alone: most estimates need one, and decoding all takes a while."""
    return by_accelerator(decode_lines(_lines_by_accelerator().get(accelerator, ()), _SHIPPED))


@lru_cache(maxsize=1)
def _lines_by_accelerator() -> Mapping[str, Sequence[PublishedLine]]:
    found: dict[str, list[PublishedLine]] = {}
    named: dict[tuple[str, str], str] = {}
    for number, line in published_lines(_shipped_text(), _SHIPPED):
        key = line["hardware"], line.get("precision", "")
        if key not in named:
            named[key] = _accelerator(at_precision(hardware_named(key[0], 1), key[1]))
        found.setdefault(named[key], []).append((number, line))
    return found


@lru_cache(maxsize=64)
def _sorted(rows: tuple[Published, ...]) -> ByAccelerator:
    return by_accelerator(rows)


def _accelerator(cluster: Hardware) -> str:
    """Return the accelerator's name; one that is not named is recognised by its peak."""
    return prior(cluster).accelerator or f"{cluster.peak_flops:.4g} FLOP/s"


@lru_cache(maxsize=2048)
def _fitted(row: Published) -> Calibration | None:
    """Fit the row; return None if its rate is beyond what hardware and traffic allow.

    Such a row says nothing of other sizes.
    """
    of = row.asked
    try:
        found = fit_utilisation(
            of.model, of.cluster, of.layout, sequences_per_second=row.sequences_per_second
        )
    except CannotEstimate:
        return None
    met = throughput(of.model, of.cluster, of.layout, found).sequences_per_second
    return found if met >= _MET * row.sequences_per_second else None


def can_be_followed(row: Published) -> bool:
    """Return True if the row says something of other configurations, too."""
    return _fitted(row) is not None


# Throughput that other people published: other_rows.csv. Estimates are based on the nearest of these rows
# (nearest.py), and judged by the other tables' (trials.py). Another row is one line of the file, with the
# columns of published_rows.py.


@lru_cache(maxsize=1)
def other_rows() -> tuple[Published, ...]:
    return decode_published(_shipped_text(), _SHIPPED)


_SHIPPED = "other_rows.csv"


def _shipped_text() -> str:
    return Path(__file__).with_name(_SHIPPED).read_text(encoding="utf-8")


# The rows on which an estimate may be based: measurements, and published rows that a user has read in.


class Evidence(tuple[Measurement, ...]):
    """Hold measurements, and the published rows that `slipway calibrate --published` has read."""

    published: tuple[Published, ...]
    _sorted: ByAccelerator

    def __new__(cls, rows: Iterable[Measurement], published: Sequence[Published]) -> Evidence:
        made = super().__new__(cls, rows)
        made.published = tuple(published)
        made._sorted = by_accelerator(made.published)
        return made

    def nearest(self, asked: Asked) -> NearestRow | None:
        """Return the nearest of the published rows, if there is one on this accelerator."""
        return nearest_of(self._sorted, asked)

    def same(self, asked: Asked) -> Published | None:
        """Return the row of this very configuration; of several, the last that was read."""
        return next((row for row in reversed(self.published) if _is_same(row.asked, asked)), None)


def is_same_model(of: Asked, asked: Asked) -> bool:
    return of.model_name == asked.model_name or of.model == asked.model


_TOLD = ("checkpointing", "sequence_parallel", "fused")  # of a layout, beside its configuration


def _is_same(of: Asked, asked: Asked) -> bool:
    return (
        (of.instance, of.cluster) == (asked.instance, asked.cluster)
        and is_same_model(of, asked)
        and of.configuration == asked.configuration
        and all(getattr(of.layout, name) == getattr(asked.layout, name) for name in _TOLD)
    )
