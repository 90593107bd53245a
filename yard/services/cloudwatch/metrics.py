"""Metrics as moto keeps them: what services here report in their own name, and the values of periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.services.cloudwatch.evaluation import Datapoint

IN_SERVICE = "GroupInServiceInstances"


def report(region: str, namespace: str, name: str, dimensions: Mapping[str, str], value: float) -> None:
    """Add a datapoint of a service of AWS, whose namespace nobody else may write to."""
    from moto.cloudwatch.models import MetricDatum

    named = [{"Name": key, "Value": each} for key, each in dimensions.items()]
    backend(region).metric_data.append(MetricDatum(namespace, name, value, named, None))


def report_groups(region: str) -> None:
    """Report the sizes of Auto Scaling groups that collect that metric; those are not reported otherwise."""
    from moto.autoscaling.models import autoscaling_backends

    for group in list(autoscaling_backends[ACCOUNT][region].autoscaling_groups.values()):
        if IN_SERVICE in group.metrics:
            named = {"AutoScalingGroupName": group.name}
            report(region, "AWS/AutoScaling", IN_SERVICE, named, len(group.active_instances()))


def periods(
    region: str, metric: Any, *, stat: str, seconds: int, count: int, now: datetime
) -> list[Datapoint]:
    """Return the statistic of the last `count` periods up to now, the newest last."""
    begin = now - timedelta(seconds=seconds * count)
    found: list[list[Any]] = [[] for _ in range(count)]
    wanted = {(dimension.name, dimension.value) for dimension in metric.dimensions}
    for datum in backend(region).metric_data:
        if (datum.namespace, datum.name) != (metric.namespace, metric.metric_name):
            continue
        at = datum.timestamp.replace(tzinfo=None)
        if (
            begin < at <= now
            and {(dimension.name, dimension.value) for dimension in datum.dimensions} == wanted
        ):
            found[min(count - 1, int((at - begin).total_seconds() // seconds))].append(datum)
    return [_statistic(stat, each) for each in found]


def backend(region: str) -> Any:
    from moto.cloudwatch.models import cloudwatch_backends

    return cloudwatch_backends[ACCOUNT][region]


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
