"""The state of an alarm for datapoints with gaps, as the tables of CloudWatch's user guide have it."""

from __future__ import annotations

import pytest

from slipway.yard.services.cloudwatch.evaluation import (
    ALARM,
    NO_DATA,
    OK,
    AlarmRule,
    UnknownExpression,
    compute,
    evaluate,
)

KEPT = None
TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")


# "0" does not breach, "X" does, "-" is missing; the oldest first. Then the state for each treatment.
@pytest.mark.parametrize(
    ("datapoints", "states"),
    [
        ("0 - X - X", (OK, OK, OK, OK)),
        ("0 - - - -", (OK, OK, OK, OK)),
        ("- - - - -", (NO_DATA, KEPT, ALARM, OK)),
        ("0 X X - X", (ALARM, ALARM, ALARM, ALARM)),
        ("- - X - -", (ALARM, KEPT, ALARM, OK)),
    ],
)
def test_gaps_are_treated_as_the_alarm_says(datapoints: str, states: tuple[str | None, ...]) -> None:
    values = [{"0": 0.0, "X": 1.0, "-": None}[mark] for mark in datapoints.split()]
    found = tuple(evaluate(rule(missing), values) for missing in TREATMENTS)
    assert found == states


def rule(missing: str) -> AlarmRule:
    return AlarmRule(
        periods=3,
        datapoints=3,
        threshold=1,
        comparison="GreaterThanOrEqualToThreshold",
        missing=missing,
    )


def test_some_of_the_periods_are_enough_where_the_alarm_says_so() -> None:
    two_of_three = AlarmRule(
        periods=3, datapoints=2, threshold=1, comparison="GreaterThanThreshold", missing="notBreaching"
    )
    assert evaluate(two_of_three, [2, 0, 2]) == ALARM
    assert evaluate(two_of_three, [2, 0, 1]) == OK


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("FILL(m, 0)", [1, 0, 3]),
        ("IF(FILL(m, 0) < n, 1, 0)", [1, 1, 0]),
        ("m * 2 + n", [4, None, 8]),
        ("FILL(nothing, 0)", [None, None, None]),
    ],
)
def test_metric_math_is_computed_period_by_period(expression: str, expected: list[float | None]) -> None:
    series: dict[str, list[float | None]] = {
        "m": [1.0, None, 3.0],
        "n": [2.0, 2.0, 2.0],
        "nothing": [None, None, None],
    }
    assert compute(expression, series, 3) == expected


@pytest.mark.parametrize("expression", ["ANOMALY_DETECTION_BAND(m)", "__import__('os')", "m.real", "("])
def test_an_expression_that_is_not_known_is_not_computed(expression: str) -> None:
    with pytest.raises(UnknownExpression):
        compute(expression, {"m": [1.0]}, 1)
