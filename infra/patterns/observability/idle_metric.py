"""How a node tells that it is billed and has no job: the metric that report_idle.sh writes."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from slipway.jobs.core.node_metrics import CLUSTER_DIMENSION, IDLE_METRIC, METRIC_NAMESPACE

REPORT_EVERY_MINUTES = 5  # as infra/boot/units/slipway-idle.timer says


def idle_metric(cluster: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=METRIC_NAMESPACE,
        metric_name=IDLE_METRIC,
        dimensions_map={CLUSTER_DIMENSION: cluster},
        statistic="Sum",
        period=Duration.minutes(REPORT_EVERY_MINUTES),
    )
