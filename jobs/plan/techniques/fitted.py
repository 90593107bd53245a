"""Fit the estimate to a few measured steps of one machine: it then predicts all other steps.

A step takes a sum of three terms, each times a fitted number: its passes, the estimated computing and the
estimated sending. A measured ratio per technique and kind of model corrects the sum.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.work.shapes import Calibration, Hardware, Layout, Model
from slipway.jobs.estimate.work.step import step
from slipway.jobs.plan.techniques.techniques import Variant

UNCHECKED_ERROR = 0.25  # if too little was measured to leave a step out and predict it
_FEWEST_CHECKED = 4
_LEAST = 1e-9

Features = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Hold what a rank can find out about any model, and the rows of its batches."""

    parameters: int
    layers: int
    widest: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    kind: str  # of model: each kind has its own ratio per technique
    facts: ModelFacts
    technique: str
    variant: Variant
    devices: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSteps:
    """Predict the seconds of steps from those that were measured."""

    factors: Features
    measured: tuple[MeasuredStep, ...]
    error: float  # how far off the predictions were when each step was left out in turn

    def seconds(
        self, kind: str, facts: ModelFacts, variant: Variant, devices: int, technique: str
    ) -> float | None:
        """Return a step's seconds; None if the estimate cannot split the model this way."""
        features = _features(facts, variant, devices)
        if features is None:
            return None
        # The measured over the fitted seconds of this technique for this kind of model.
        ratios = [
            each.seconds / _product(self.factors, own)
            for each in self.measured
            if (each.kind, each.technique) == (kind, technique)
            and (own := _features(each.facts, each.variant, each.devices)) is not None
        ]
        return _product(self.factors, features) * (statistics.median(ratios) if ratios else 1.0)


def fit_steps(measured: Sequence[MeasuredStep]) -> FittedSteps:
    """Fit the three numbers; the error is how far off each measured step is if it is left out."""
    factors, missed = _fit(measured), []
    for one in measured if len(measured) >= _FEWEST_CHECKED else ():
        others = tuple(each for each in measured if each is not one)
        without = FittedSteps(factors=_fit(others), measured=others, error=0.0)
        told = without.seconds(one.kind, one.facts, one.variant, one.devices, one.technique)
        if told is not None:
            missed.append(abs(told / one.seconds - 1))
    error = statistics.median(missed) if missed else UNCHECKED_ERROR
    return FittedSteps(factors=factors, measured=tuple(measured), error=error)


def _fit(measured: Sequence[MeasuredStep]) -> Features:
    """Return the numbers, none below 0, with the least sum of squared relative errors."""
    rows = [
        (features, each.seconds)
        for each in measured
        if (features := _features(each.facts, each.variant, each.devices)) is not None
    ]
    best: tuple[float, Features] = (math.inf, (0.0, 1.0, 1.0))
    for count in (1, 2, 3):
        for chosen in itertools.combinations(range(3), count):
            found = _least_squares(rows, chosen)
            if min(found) >= 0 and max(found) > 0:
                missed = sum((_product(found, features) / seconds - 1) ** 2 for features, seconds in rows)
                best = min(best, (missed, found))
    return best[1]


def _least_squares(rows: Sequence[tuple[Features, float]], chosen: Sequence[int]) -> Features:
    import numpy as np

    if not rows:
        return (-1.0, -1.0, -1.0)
    matrix = np.array([[features[place] / seconds for place in chosen] for features, seconds in rows])
    found = np.linalg.lstsq(matrix, np.ones(len(rows)), rcond=None)[0]
    factors = [0.0, 0.0, 0.0]
    for place, number in zip(chosen, found, strict=True):
        factors[place] = float(number)
    return factors[0], factors[1], factors[2]


def _product(factors: Features, features: Features) -> float:
    return max(_LEAST, sum(one * other for one, other in zip(factors, features, strict=True)))


def _features(facts: ModelFacts, variant: Variant, devices: int) -> Features | None:
    """Return passes, computing and sending of a step; None if the model cannot be split this way."""
    words: dict[str, Any] = dict(variant.layout)
    pipeline = words.get("pipeline", 1)
    readers = devices // (words.get("tensor", 1) * pipeline)
    pieces = pipeline * words.get("chunks", 1) if pipeline > 1 else 1
    try:
        layout = Layout(
            micro_batch=max(1, math.ceil(facts.rows / max(1, readers) / pieces)),
            accumulation_steps=pieces,
            gradient_bytes=4.0,
            parameter_bytes=4.0,
            **words,
        )
        taken = step(_model(facts), _machine(devices), layout, Calibration())
    except CannotEstimate:
        return None
    return float(pieces), taken.compute + taken.bubble, taken.tensor + taken.pipeline + taken.data


def _model(facts: ModelFacts) -> Model:
    """Describe any model as a transformer of its layers, width and number of parameters."""
    return Model(
        layers=facts.layers,
        hidden_size=facts.widest,
        heads=facts.widest,
        feed_forward=4 * facts.widest,
        vocabulary=1,
        sequence_length=1,
        causal=False,
        parameters=float(facts.parameters),
    )


def _machine(devices: int) -> Hardware:
    # Any round numbers would do: the fit scales the results.
    return Hardware(
        nodes=1,
        devices_per_node=devices,
        peak_flops=1e12,
        memory_bytes=1e18,
        intra_node_bytes_per_second=1e10,
        inter_node_bytes_per_second=0.0,
        network="cpu",
    )
