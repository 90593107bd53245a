"""Machines that AWS PCS could not start or end, as a metric: counted from its scaling log, and alarmed on.

A metric filter can give a metric no dimension but fields of the log, so the namespace says the cluster.
"""

from __future__ import annotations

from collections.abc import Callable

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from slipway.infra.patterns.observability.alarms import StuckMetric
from slipway.jobs.words.names import METRIC_NAMESPACE

LAUNCH_FAILURES = "LaunchFailures"
_PERIOD = Duration.minutes(5)


def launch_namespace(cluster: str) -> str:
    return f"{METRIC_NAMESPACE}/{cluster}"


def counted_failures(cluster: str) -> Callable[[Construct], StuckMetric]:
    """Watch for machines that did not start, and those that started and could not join."""
    stuck = StuckMetric(
        what=f"Nodes of cluster {cluster} that AWS PCS could not start, or that could not join",
        metric=cloudwatch.Metric(
            namespace=launch_namespace(cluster),
            metric_name=LAUNCH_FAILURES,
            statistic="Sum",
            period=_PERIOD,
        ),
    )
    return lambda _scope: stuck
