"""What an estimate may stand on: measurements, and beside them the published rows that a user has brought."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slipway.jobs.estimate.evidence.asked import Asked
from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.evidence.nearest import ByAccelerator, NearestRow, by_accelerator, nearest_of
from slipway.jobs.estimate.evidence.published_rows import Published


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
        return nearest_of(self._sorted, asked)

    def same(self, asked: Asked) -> Published | None:
        """Return the row of this very configuration; the last one that was brought, if there are more."""
        return next((row for row in reversed(self.published) if _is_same(row.asked, asked)), None)


def nearest_own(rows: Sequence[Measurement], asked: Asked) -> NearestRow | None:
    """Return the nearest published row of the user's, if there is one on this accelerator."""
    return rows.nearest(asked) if isinstance(rows, Evidence) else None


def same_own(rows: Sequence[Measurement], asked: Asked) -> Published | None:
    return rows.same(asked) if isinstance(rows, Evidence) else None


def is_same_model(of: Asked, asked: Asked) -> bool:
    return of.model_name == asked.model_name or of.model == asked.model


def _is_same(of: Asked, asked: Asked) -> bool:
    return (
        (of.instance, of.cluster) == (asked.instance, asked.cluster)
        and is_same_model(of, asked)
        and of.configuration == asked.configuration
        and of.layout.checkpointing == asked.layout.checkpointing
    )
