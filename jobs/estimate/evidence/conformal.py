"""How wide a range has to be: the conformal quantile of rows' errors, each in units of its distance.

A table counts as one, however many rows it prints: who asks brings a table of his own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from slipway.jobs.estimate.evidence.trials import Trial
from slipway.jobs.estimate.work.spread import NINE_OF_TEN

_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Count the rows that lay in ranges whose width was told by all other tables."""

    rows: int
    held: int
    held_of_a_table: float  # on average over tables


def quantile(trials: Sequence[Trial]) -> float:
    """Return the factor of a distance within which nine tenths of the tables' errors are."""
    rows = Counter(trial.table for trial in trials)
    below = 0.0
    for trial in sorted(trials, key=_score):
        below += 1 / rows[trial.table]
        if below >= _SHARE * len(rows):
            return _score(trial)
    raise AssertionError("all rows weigh as much as there are tables")


def left_out(trials: Sequence[Trial]) -> LeftOut:
    """Judge each table by the quantile of the others."""
    held: dict[str, list[bool]] = {}
    for table in dict.fromkeys(trial.table for trial in trials):
        factor = quantile([trial for trial in trials if trial.table != table])
        held[table] = [_score(trial) <= factor for trial in trials if trial.table == table]
    return LeftOut(
        rows=len(trials),
        held=sum(sum(rows) for rows in held.values()),
        held_of_a_table=fmean(fmean(rows) for rows in held.values()),
    )


def median_width(trials: Sequence[Trial]) -> float:
    """Return the farther end of the median range, as a share."""
    return math.expm1(median(trial.spread for trial in trials))


def _score(trial: Trial) -> float:
    return NINE_OF_TEN * abs(math.log(trial.predicted / trial.published)) / trial.spread
