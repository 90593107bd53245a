"""What nodes tell of themselves: that they are billed and have no job, and that they cannot join."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from slipway.jobs.words.names import (
    CLUSTER_DIMENSION,
    IDLE_METRIC,
    METRIC_NAMESPACE,
    NOT_JOINED_METRIC,
)

REPORT_EVERY_MINUTES = 5  # as infra/boot/units/slipway-idle.timer says


def idle_metric(cluster: str) -> cloudwatch.Metric:
    return _metric(IDLE_METRIC, cluster)


def not_joined_metric(cluster: str) -> cloudwatch.Metric:
    return _metric(NOT_JOINED_METRIC, cluster)


def _metric(name: str, cluster: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=METRIC_NAMESPACE,
        metric_name=name,
        dimensions_map={CLUSTER_DIMENSION: cluster},
        statistic="Sum",
        period=Duration.minutes(REPORT_EVERY_MINUTES),
    )
