"""When an alarm is on: pure, from the datapoints of its evaluation range (CloudWatch user guide, "Configuring
how CloudWatch alarms treat missing data").
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

OK, ALARM, NO_DATA = "OK", "ALARM", "INSUFFICIENT_DATA"
# CloudWatch looks further back than the evaluation periods; how far it does not say. Its examples have two.
LOOKS_BACK = 2

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanOrEqualToThreshold": operator.le,
    "LessThanThreshold": operator.lt,
}
Datapoint = float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    periods: int
    datapoints: int  # of those periods, that must breach
    threshold: float
    comparison: str
    missing: str  # TreatMissingData

    @property
    def evaluated(self) -> int:
        return self.periods + LOOKS_BACK


def can_compare(comparison: str) -> bool:
    """Return False for comparisons with a band of anomaly detection."""
    return comparison in _COMPARE


def evaluate(rule: AlarmRule, datapoints: Sequence[Datapoint]) -> str | None:
    """Return the state for the datapoints, the newest last; None keeps the state as it is."""
    breaches = [_COMPARE[rule.comparison](value, rule.threshold) for value in datapoints if value is not None]
    if len(breaches) >= rule.periods:  # the missing ones are made up for by older ones
        return _state(breaches[-rule.periods :], rule.datapoints)
    absent = rule.periods - len(breaches)
    if rule.missing == "breaching":
        return _state([*breaches, *[True] * absent], rule.datapoints)
    if rule.missing == "notBreaching":
        return _state([*breaches, *[False] * absent], rule.datapoints)
    if not breaches:
        return None if rule.missing == "ignore" else NO_DATA
    if rule.missing == "ignore":
        return ALARM if sum(breaches) >= rule.datapoints else None if any(breaches) else OK
    return _state(breaches, min(rule.datapoints, len(breaches)))


def _state(breaches: Sequence[bool], needed: int) -> str:
    return ALARM if sum(breaches) >= needed else OK
