"""Chooses the measurement on which an estimate is based, and says in one word how close it is.

Candidates are the rows of measurements.py and other people's on the same accelerator (nearest.py); the
nearest wins, by the distance of work/spread.py. Another word is one of WORDS and its branch in
find_calibration. bands.py counts how far off estimates of each word are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slipway.jobs.estimate.evidence.measurements import Asked, Measurement
from slipway.jobs.estimate.evidence.nearest import Evidence, NearestRow, is_same_model, nearest_row
from slipway.jobs.estimate.evidence.published_rows import Published, as_measurement
from slipway.jobs.estimate.evidence.tables import TABLES
from slipway.jobs.estimate.hardware import cluster_of, family_of
from slipway.jobs.estimate.work.models import length_of, shape_of
from slipway.jobs.estimate.work.rate import fit_network_efficiency, fit_utilisation, throughput
from slipway.jobs.estimate.work.shapes import Calibration, Hardware, MeasuredAt
from slipway.jobs.estimate.work.spread import distance, measured_spread, nearness, origin_of
from slipway.jobs.words.catalogue.instances import find_instance_type

__all__ = ["FITTABLE", "WORDS", "Asked", "Known", "find_calibration", "fit_measurement", "merged"]

# measured: this configuration; calibrated: the same model, length and accelerator; predicted: neither.
WORDS = ("measured", "calibrated", "predicted")
FITTABLE = 0.03  # least share of communication in a step from which a network efficiency may be fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    calibration: Calibration
    word: str  # one of WORDS, for the printed rate, which may be measured
    predicted_word: str  # one of WORDS, for the predicted rate
    basis: str  # source of the utilisation, for users
    nearness: str  # differences from the measured configuration; "": nothing was measured
    measured: Measurement | None  # None: this very configuration was not measured
    is_own: bool = False  # True: measured by the user

    def spread_of(self, predicted: float, cluster: Hardware) -> float:
        """Return the spread of the printed rate, which is `predicted` if nothing was measured."""
        if self.measured is None:
            return predicted
        return measured_spread(cluster, is_own=self.is_own)


def find_calibration(
    rows: Sequence[Measurement], asked: Asked, others: tuple[Published, ...] | None = None
) -> Known:
    """Return the calibration by the nearest measurement. `others` are other people's rows; None: all."""
    family = [row for row in rows if row.family == family_of(asked.instance)]
    own = [row for row in family if row.model == asked.model_name]
    measured, is_own = _measured(rows, own, asked)
    fitted = _smallest(own, asked) or _nearest_model(family, asked)
    origin = None if fitted is None else _origin(fitted, asked)
    near = _nearest_published(rows, asked, origin, () if fitted in own else others)
    if near is not None:
        return replace(_by_published(near, asked, _efficiency(family), measured), is_own=is_own)
    if fitted is None or origin is None:
        return Known(
            calibration=Calibration(network_efficiency=_efficiency(family)),
            word="measured" if measured else "predicted",
            predicted_word="predicted",
            basis=measured.source if measured else "the accelerator's prior: nothing was measured on it",
            nearness="",
            measured=measured,
            is_own=is_own,
        )
    made = "calibrated" if fitted.model == asked.model_name else "predicted"
    return Known(
        calibration=Calibration(
            utilisation=_rescaled(fitted, asked),
            network_efficiency=fitted.network_efficiency or _efficiency(family),
            origin=origin,
        ),
        word="measured" if measured else made,
        predicted_word=made,
        basis=f"{fitted.model} on {fitted.nodes} × {fitted.instance}, {fitted.date}: {fitted.source}",
        nearness=nearness(asked.model, asked.layout, origin),
        measured=measured,
        is_own=is_own,
    )


def _nearest_published(
    rows: Sequence[Measurement],
    asked: Asked,
    origin: MeasuredAt | None,
    others: tuple[Published, ...] | None,
) -> NearestRow | None:
    """Return the nearest published row if it is nearer than `origin`.

    Among equals, the user's published rows come first, but after the user's own runs.
    """
    most = math.inf if origin is None else distance(asked.model, asked.cluster, asked.layout, origin)
    brought = rows.nearest(asked) if isinstance(rows, Evidence) else None
    shipped = nearest_row(asked, others)
    if brought is not None and (shipped is None or brought.spread <= shipped.spread):
        is_run_equal = origin is not None and origin.is_own and brought.spread == most
        return brought if brought.spread <= most and not is_run_equal else None
    return shipped if shipped is not None and shipped.spread < most else None


def _by_published(
    near: NearestRow, asked: Asked, efficiency: float | None, measured: Measurement | None
) -> Known:
    row, of = near.row, near.row.asked
    made = "calibrated" if is_same_model(of, asked) else "predicted"
    own = near.calibration.network_efficiency or efficiency
    alike = f", with {near.alike} rows about as near" if near.alike else ""
    return Known(
        calibration=replace(near.calibration, network_efficiency=own, origin=near.origin),
        word="measured" if measured else made,
        predicted_word=made,
        basis=f"{of.model_name} on {of.cluster.devices} devices of {of.instance}{alike}: {row.table}",
        nearness=nearness(asked.model, asked.layout, near.origin),
        measured=measured,
    )


def _measured(
    rows: Sequence[Measurement], own: Sequence[Measurement], asked: Asked
) -> tuple[Measurement | None, bool]:
    """Return the measurement of this very configuration, the user's first, and whether it is the user's."""
    found = [
        row
        for row in own
        if row.instance == asked.instance
        and row.nodes == asked.cluster.nodes
        and row.configuration == asked.configuration
        and row.is_like(asked.layout)
    ]
    ours = min(found, key=lambda row: _preference(row, asked), default=None)
    brought = rows.same(asked) if isinstance(rows, Evidence) else None
    if ours is not None and (brought is None or _is_own(ours)):
        return ours, _is_own(ours)
    return (None, False) if brought is None else (as_measurement(brought), brought.is_own)


def _origin(row: Measurement, asked: Asked) -> MeasuredAt:
    """Return where a row was measured; facts that its name does not tell are assumed to be as asked."""
    shape = asked.model if row.model == asked.model_name else shape_of(row.model) or asked.model
    shape = replace(shape, sequence_length=length_of(row.model, shape))
    cluster = replace(asked.cluster, nodes=row.nodes)
    layout = replace(
        asked.layout,
        micro_batch=row.micro_batch,
        sharding=row.sharding,
        tensor=row.tensor,
        pipeline=row.pipeline,
        checkpointing=row.checkpointing or asked.layout.checkpointing,
    )
    return origin_of(shape, cluster, layout, is_own=_is_own(row))


def _is_own(row: Measurement) -> bool:
    return row.name not in TABLES


def merged(ours: Iterable[Measurement], own: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return ours and the user's rows; the user's replace ours for the same model and family."""
    known = {(row.family, row.model) for row in own}
    return (*own, *(row for row in ours if (row.family, row.model) not in known))


def fit_measurement(
    row: Measurement, asked: Asked, own: Sequence[Measurement], ours: Sequence[Measurement]
) -> Measurement:
    """Return the row with the number that can be fitted on it.

    `own` are the user's other rows, `ours` those that they replace. The number is the utilisation, by
    inverting the whole step; or the network efficiency, if a smaller run of the user's gave the utilisation
    and communication takes enough of this run's step.
    """
    base = _smaller(row, own)
    if base is not None and base.utilisation is not None:
        utilisation = _rescaled(base, asked)
        first = Calibration(utilisation=utilisation)
        taken = throughput(asked.model, asked.cluster, asked.layout, first).step
        if taken.data / taken.seconds >= FITTABLE:
            efficiency = fit_network_efficiency(
                asked.model,
                asked.cluster,
                asked.layout,
                sequences_per_second=row.sequences_per_second,
                utilisation=utilisation,
            ).network_efficiency
            return replace(row, network_efficiency=efficiency)
    known = _efficiency([each for each in merged(ours, own) if each.family == row.family])
    fitted = fit_utilisation(
        asked.model,
        asked.cluster,
        asked.layout,
        sequences_per_second=row.sequences_per_second,
        network_efficiency=known,
    )
    # The family's numbers stay as they are; the row keeps only what was needed to meet its own rate.
    needed = None if fitted.network_efficiency == known else fitted.network_efficiency
    return replace(row, utilisation=fitted.utilisation, network_efficiency=needed)


def _smaller(row: Measurement, own: Sequence[Measurement]) -> Measurement | None:
    found = [
        each
        for each in own
        if (each.family, each.model) == (row.family, row.model)
        and each.nodes < row.nodes
        and each.utilisation is not None
    ]
    return min(found, key=lambda each: each.nodes, default=None)


def _smallest(own: Sequence[Measurement], asked: Asked) -> Measurement | None:
    """Return the run of the same model on the fewest nodes, which has the least communication."""
    fitted = [row for row in own if row.utilisation is not None]
    return min(fitted, key=lambda row: _preference(row, asked), default=None)


def _preference(row: Measurement, asked: Asked) -> tuple[bool, bool, int]:
    is_namesake = bool(asked.workload) and row.name.rpartition("/")[2] == asked.workload
    return not is_namesake, row.instance != asked.instance, row.nodes


def _nearest_model(family: Sequence[Measurement], asked: Asked) -> Measurement | None:
    """Return the nearest model: a decoder for a decoder, then by the width of the layers."""

    def distance(row: Measurement) -> tuple[bool, float, int]:
        shape = shape_of(row.model)
        if shape is None:
            return True, math.inf, row.nodes
        width = abs(math.log(shape.hidden_size / asked.model.hidden_size))
        return shape.causal != asked.model.causal, width, row.nodes

    return min((row for row in family if row.utilisation is not None), key=distance, default=None)


def _efficiency(family: Sequence[Measurement]) -> float | None:
    return next((row.network_efficiency for row in family if row.network_efficiency is not None), None)


def _rescaled(row: Measurement, asked: Asked) -> float:
    """Scale a utilisation to its type's peak, which may differ from the one by which it was divided.

    Another size of the family reaches the same share of its own peak.
    """
    assert row.utilisation is not None
    measured_on = None if row.instance == asked.instance else find_instance_type(row.instance)
    of_type = asked.cluster if measured_on is None else cluster_of(measured_on, nodes=1)
    return row.utilisation * row.peak_tflops * 1e12 / of_type.peak_flops
