"""A few measured steps tell the others, and how far to trust that."""

from __future__ import annotations

import pytest

from slipway.jobs.plan.techniques.fitted import (
    UNCHECKED_ERROR,
    MeasuredStep,
    ModelFacts,
    _features,
    _product,
    fit_steps,
)
from slipway.jobs.plan.techniques.techniques import TECHNIQUES, Variant

TRUE = (0.003, 2.0, 5.0)  # what this machine really takes


def facts(rows: int) -> ModelFacts:
    return ModelFacts(parameters=50_000_000, layers=8, widest=512, rows=rows)


def variant(technique: str, devices: int) -> Variant:
    return next(iter(TECHNIQUES[technique](devices, devices)))


def seconds(technique: str, rows: int, devices: int, *, slower: float = 1.0) -> float:
    features = _features(facts(rows), variant(technique, devices), devices)
    assert features is not None, "it can be split so"
    return _product(TRUE, features) * slower


def measured(technique: str, rows: int, devices: int, *, slower: float = 1.0) -> MeasuredStep:
    return MeasuredStep(
        kind="decoder",
        facts=facts(rows),
        technique=technique,
        variant=variant(technique, devices),
        devices=devices,
        seconds=seconds(technique, rows, devices, slower=slower),
    )


FEW = [measured("data", 8, 1), measured("data", 64, 1), measured("data", 64, 8), measured("fsdp", 64, 8)]


@pytest.mark.parametrize(("rows", "devices"), [(16, 1), (32, 2), (64, 4), (8, 8)])
def test_sizes_that_nobody_measured_follow_from_a_few(rows: int, devices: int) -> None:
    told = fit_steps(FEW).seconds("decoder", facts(rows), variant("data", devices), devices, "data")
    assert told == pytest.approx(seconds("data", rows, devices), rel=0.05)


def test_a_technique_that_was_slow_once_is_expected_to_be_slow_at_other_sizes() -> None:
    slow = [*FEW, measured("gpipe", 64, 8, slower=3.0)]
    told = fit_steps(slow).seconds("decoder", facts(64), variant("gpipe", 4), 4, "gpipe")
    other = fit_steps(slow).seconds("encoder", facts(64), variant("gpipe", 4), 4, "gpipe")
    assert told is not None
    assert other is not None
    assert told > 1.2 * other


def test_what_was_left_out_says_how_far_to_trust_the_rest() -> None:
    assert fit_steps(FEW).error < 0.5
    assert fit_steps(FEW[:2]).error == UNCHECKED_ERROR


def test_a_split_that_cannot_be_is_not_told() -> None:
    narrow = ModelFacts(parameters=100, layers=2, widest=7, rows=8)
    assert fit_steps(FEW).seconds("decoder", narrow, variant("gpipe", 8), 8, "gpipe") is None
    assert fit_steps(FEW).seconds("decoder", narrow, variant("tensor", 2), 2, "tensor") is None


def test_nothing_measured_still_gives_an_answer_with_a_wide_error() -> None:
    assert fit_steps([]).error == UNCHECKED_ERROR
