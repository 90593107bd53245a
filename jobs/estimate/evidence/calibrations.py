"""Which measurement an estimate stands on, in one word.

The rows are those of measurements.py; a further word is one of WORDS and its branch in find_calibration. How
far off estimates with a word are is counted in bands.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.hardware import family_of
from slipway.jobs.estimate.work.models import shape_of
from slipway.jobs.estimate.work.rate import fit_network_efficiency, fit_utilisation, throughput
from slipway.jobs.estimate.work.shapes import Calibration, Hardware, Layout, Model, accumulation, replicas

# measured: this configuration was; calibrated: the same model, length and family; predicted: neither.
WORDS = ("measured", "calibrated", "predicted")
FITTABLE = 0.03  # of a step that must be communication before a network efficiency may be fitted on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Name what a calibration is looked up for. `workload` prefers rows of its name among equals."""

    instance: str
    model_name: str
    model: Model
    cluster: Hardware
    layout: Layout
    workload: str = ""

    @property
    def configuration(self) -> tuple[int, int, int, int, str]:
        layout = self.layout
        own = replicas(self.model, self.cluster, layout) * layout.micro_batch
        batch = own * accumulation(self.model, self.cluster, layout)
        return layout.micro_batch, batch, layout.tensor, layout.pipeline, layout.sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    calibration: Calibration
    word: str  # of WORDS: of the measured rate, where there is one
    predicted_word: str  # of WORDS: of the rate that the calibration gives, which nobody measured
    basis: str  # where the utilisation comes from, for a person
    measured: Measurement | None  # of this very configuration


def find_calibration(rows: Sequence[Measurement], asked: Asked) -> Known:
    family = [row for row in rows if row.family == family_of(asked.instance)]
    own = [row for row in family if row.model == asked.model_name]
    measured = _same(own, asked)
    fitted = _smallest(own, asked) or _nearest_model(family, asked)
    if fitted is None:
        return Known(
            calibration=Calibration(network_efficiency=_efficiency(family)),
            word="measured" if measured else "predicted",
            predicted_word="predicted",
            basis="the class's prior: nothing was measured on this family",
            measured=measured,
        )
    made = "calibrated" if fitted.model == asked.model_name else "predicted"
    return Known(
        calibration=Calibration(
            utilisation=_rescaled(fitted, asked.cluster),
            network_efficiency=fitted.network_efficiency or _efficiency(family),
        ),
        word="measured" if measured else made,
        predicted_word=made,
        basis=f"{fitted.model} on {fitted.nodes} × {fitted.instance}, {fitted.date}: {fitted.source}",
        measured=measured,
    )


def merged(ours: Iterable[Measurement], own: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return ours and the user's rows; the user's replace ours for the same model on the same family."""
    known = {(row.family, row.model) for row in own}
    return (*own, *(row for row in ours if (row.family, row.model) not in known))


def fit_measurement(
    row: Measurement, asked: Asked, own: Sequence[Measurement], ours: Sequence[Measurement]
) -> Measurement:
    """Return the row with the number that it gives. `own` are the user's other rows, `ours` those that they
    replace.

    The number is the utilisation, by inverting the whole step; or the network efficiency, if a smaller run of
    the user gave utilisation and enough of this one's step is communication.
    """
    base = _smaller(row, own)
    if base is not None and base.utilisation is not None:
        utilisation = _rescaled(base, asked.cluster)
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
    fitted = fit_utilisation(
        asked.model,
        asked.cluster,
        asked.layout,
        sequences_per_second=row.sequences_per_second,
        network_efficiency=_efficiency([each for each in merged(ours, own) if each.family == row.family]),
    )
    return replace(row, utilisation=fitted.utilisation)


def _smaller(row: Measurement, own: Sequence[Measurement]) -> Measurement | None:
    found = [
        each
        for each in own
        if (each.family, each.model) == (row.family, row.model)
        and each.nodes < row.nodes
        and each.utilisation is not None
    ]
    return min(found, key=lambda each: each.nodes, default=None)


def _same(own: Sequence[Measurement], asked: Asked) -> Measurement | None:
    found = [
        row
        for row in own
        if row.instance == asked.instance
        and row.nodes == asked.cluster.nodes
        and row.configuration == asked.configuration
    ]
    return min(found, key=lambda row: _preference(row, asked), default=None)


def _smallest(own: Sequence[Measurement], asked: Asked) -> Measurement | None:
    """Return the run of the same model with fewest nodes, which has least communication."""
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


def _rescaled(row: Measurement, cluster: Hardware) -> float:
    """Scale a utilisation to the peak in the catalogue, which may differ from the one that it was divided
    by."""
    assert row.utilisation is not None
    return row.utilisation * row.peak_tflops * 1e12 / cluster.peak_flops
