"""Measures how far off estimates of published rows are, each predicted without parts of its own table.

A row is tried twice. First nothing of its table is known. Then one row of its table is: the smallest run of
the same model, as if `slipway calibrate` had read it. The error counts for the word (measured, calibrated,
predicted) that the estimate would have had.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from slipway.jobs.estimate.evidence.calibrations import Asked, find_calibration, fit_measurement
from slipway.jobs.estimate.evidence.measurements import Measurement, our_measurements
from slipway.jobs.estimate.evidence.nearest import other_rows
from slipway.jobs.estimate.evidence.published import rate_of
from slipway.jobs.estimate.evidence.published_rows import Published, as_measurement
from slipway.jobs.estimate.evidence.tables import TABLES
from slipway.jobs.estimate.hardware import prior
from slipway.jobs.estimate.work.rate import throughput
from slipway.jobs.words.catalogue.hardware import device_of
from slipway.jobs.words.catalogue.instances import instance_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Compare one published row with the estimate of its configuration."""

    word: str  # of calibrations.WORDS
    device: str
    accelerator: str  # of hardware.py
    table: str
    published: float
    predicted: float
    spread: float  # printed with it

    @property
    def is_held(self) -> bool:
        return abs(math.log(self.predicted / self.published)) <= self.spread

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1


def trials() -> Iterator[Trial]:
    """Yield every published row: from the articles (tables.py) and from other people (other_rows.csv)."""
    rows = [
        Published(
            table=table.name,
            device=device_of(instance_type(table.instance)),
            asked=Asked(
                instance=table.instance,
                model_name=table.model,
                model=table.shape,
                cluster=table.cluster(row.nodes),
                layout=table.layout,
            ),
            sequences_per_second=rate_of(table, row),
        )
        for table in TABLES.values()
        for row in table.rows
    ]
    rows += other_rows()
    for row in rows:
        yield _trial(row, _without(row.table))

    def model(row: Published) -> tuple[str, str, str]:
        return row.table, row.asked.instance, row.asked.model_name

    for _, same in groupby(sorted(rows, key=model), model):
        first, *others = sorted(same, key=lambda row: row.asked.cluster.devices)
        known = fit_measurement(as_measurement(first), first.asked, (), _without(first.table))
        for row in others:
            # The family's other models may give a network efficiency.
            family = (each for each in _without(row.table) if each.model != row.asked.model_name)
            yield _trial(row, (known, *family))


def _trial(row: Published, known: Sequence[Measurement]) -> Trial:
    asked = row.asked
    found = find_calibration(known, asked, _other_tables(row.table))
    again = found.measured  # the same configuration was published twice
    made = throughput(asked.model, asked.cluster, asked.layout, found.calibration)
    return Trial(
        word=found.word,
        device=row.device,
        accelerator=prior(asked.cluster).accelerator,
        table=row.table,
        published=row.sequences_per_second,
        predicted=again.sequences_per_second if again else made.sequences_per_second,
        spread=found.spread_of(made.spread, asked.cluster),
    )


@lru_cache(maxsize=64)
def _other_tables(table: str) -> tuple[Published, ...]:
    return tuple(row for row in other_rows() if row.table != table)


def _without(table: str) -> tuple[Measurement, ...]:
    return tuple(row for row in our_measurements() if row.name != table)
