"""Decides an alarm's state from the datapoints of its evaluation range; also metric math and metrics.

Source: CloudWatch user guide, "Configuring how CloudWatch alarms treat missing data".
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from slipway.yard.moto_backends import moto_backend

OK, ALARM, NO_DATA = "OK", "ALARM", "INSUFFICIENT_DATA"
# CloudWatch looks further back than the evaluation periods. It does not say how far; its examples use two
# more.
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
    datapoints: int  # how many of those periods must breach
    threshold: float
    comparison: str
    missing: str  # TreatMissingData

    @property
    def evaluated(self) -> int:
        return self.periods + LOOKS_BACK


def can_compare(comparison: str) -> bool:
    """Return False for comparisons with an anomaly detection band, which the yard does not support."""
    return comparison in _COMPARE


def evaluate(rule: AlarmRule, datapoints: Sequence[Datapoint]) -> str | None:
    """Return the state for the datapoints, the newest last; None: keep the state."""
    breaches = [_COMPARE[rule.comparison](value, rule.threshold) for value in datapoints if value is not None]
    if len(breaches) >= rule.periods:  # older datapoints replace missing ones
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


# Metric math, as far as our alarms use it: numbers, arithmetic, comparisons, FILL and IF.
# To add a function: a line of _FUNCTIONS.
Series = Sequence[Datapoint]


class UnknownExpression(Exception):
    """Raised for an expression that the yard cannot compute."""


def compute(expression: str, series: Mapping[str, Series], length: int) -> list[Datapoint]:
    """Return the expression's value for every period; None for a period without one."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise UnknownExpression(expression) from error
    return list(_value(tree, series, length))


def _value(node: ast.expr, series: Mapping[str, Series], length: int) -> Series:
    match node:
        case ast.Constant(value=int() | float() as number):
            return [float(number)] * length
        case ast.Name(id=name) if name in series:
            return series[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _each(_OPERATORS[type(op)], _value(left, series, length), _value(right, series, length))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _each(_OPERATORS[type(op)], _value(left, series, length), _value(right, series, length))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*[_value(arg, series, length) for arg in args])
    raise UnknownExpression(ast.unparse(node))


def _each(op: Callable[[float, float], float], left: Series, right: Series) -> Series:
    pairs = zip(left, right, strict=True)
    return [None if a is None or b is None else float(op(a, b)) for a, b in pairs]


def _fill(values: Series, default: Series) -> Series:
    """Fill gaps; a metric without any datapoint in the range stays empty."""
    if all(value is None for value in values):
        return values
    return [other if value is None else value for value, other in zip(values, default, strict=True)]


def _if(condition: Series, then: Series, otherwise: Series) -> Series:
    triples = zip(condition, then, otherwise, strict=True)
    return [None if test is None else (yes if test else no) for test, yes, no in triples]


_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b if b else 0.0,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
}
_FUNCTIONS: Mapping[str, Callable[..., Series]] = {"FILL": _fill, "IF": _if}


# Metrics in moto: those that services of the yard report, and their statistics per period.
IN_SERVICE = "GroupInServiceInstances"


def report(region: str, namespace: str, name: str, dimensions: Mapping[str, str], value: float) -> None:
    """Add a datapoint of an AWS service, to a namespace that users may not write to."""
    from moto.cloudwatch.models import MetricDatum

    named = [{"Name": key, "Value": each} for key, each in dimensions.items()]
    backend(region).metric_data.append(MetricDatum(namespace, name, value, named, None))


def report_groups(region: str) -> None:
    """Report GroupInServiceInstances for the Auto Scaling groups that collect this metric."""
    for group in list(moto_backend("autoscaling", region).autoscaling_groups.values()):
        if IN_SERVICE in group.metrics:
            named = {"AutoScalingGroupName": group.name}
            report(region, "AWS/AutoScaling", IN_SERVICE, named, len(group.active_instances()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """Hold the last periods up to now."""

    seconds: int
    count: int
    now: datetime

    def of(self, region: str, metric: Any, stat: str) -> list[Datapoint]:
        """Return the statistic for each period, the newest last."""
        begin = self.now - timedelta(seconds=self.seconds * self.count)
        found: list[list[Any]] = [[] for _ in range(self.count)]
        wanted = {(dimension.name, dimension.value) for dimension in metric.dimensions}
        for datum in backend(region).metric_data:
            if (datum.namespace, datum.name) != (metric.namespace, metric.metric_name):
                continue
            at = datum.timestamp.replace(tzinfo=None)
            named = {(dimension.name, dimension.value) for dimension in datum.dimensions}
            if begin < at <= self.now and named == wanted:
                place = int((at - begin).total_seconds() // self.seconds)
                found[min(self.count - 1, place)].append(datum)
        return [_statistic(stat, each) for each in found]


def backend(region: str) -> Any:
    return moto_backend("cloudwatch", region)


def _statistic(stat: str, data: Sequence[Any]) -> Datapoint:
    if not data:
        return None
    singles = [datum.value for datum in data if hasattr(datum, "value")]
    sets = [datum for datum in data if not hasattr(datum, "value")]
    count = len(singles) + sum(datum.sample_count for datum in sets)
    total = sum(singles) + sum(datum.sum for datum in sets)
    values = {
        "SampleCount": count,
        "Sum": total,
        "Average": total / count if count else 0.0,
        "Minimum": min([*singles, *(datum.min for datum in sets)]),
        "Maximum": max([*singles, *(datum.max for datum in sets)]),
    }
    return float(values[stat]) if stat in values else None
