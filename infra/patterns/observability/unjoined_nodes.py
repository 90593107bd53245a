"""Tells a cluster's owner of nodes that start, are billed and do not join, while their job waits."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from slipway.jobs.core.node_metrics import CLUSTER_DIMENSION, METRIC_NAMESPACE, NOT_JOINED_METRIC


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjoinedNodesProps:
    cluster: str
    join_minutes: int
    topic: sns.ITopic


class UnjoinedNodes(Construct):
    """Mails with the first report of the first node, some minutes after its boot."""

    def __init__(self, scope: Construct, id: str, *, props: UnjoinedNodesProps) -> None:
        super().__init__(scope, id)
        self.alarm = cloudwatch.Alarm(
            self,
            "Resource",
            alarm_description=f"Nodes of {props.cluster} have started and do not join it; each ends itself "
            f"{props.join_minutes} minutes after its boot. `slipway explain` of a waiting job says why",
            metric=cloudwatch.Metric(
                namespace=METRIC_NAMESPACE,
                metric_name=NOT_JOINED_METRIC,
                dimensions_map={CLUSTER_DIMENSION: props.cluster},
                statistic="Sum",
                period=Duration.minutes(5),
            ),
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        self.alarm.add_alarm_action(actions.SnsAction(props.topic))
