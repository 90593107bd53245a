"""The nodes of a cluster as one Auto Scaling group: all of them run, or none.

Starting: submitting a job starts them, and the clock does if declared. The template has no desired capacity,
so a deployment neither starts machines nor restarts stopped ones (CloudFormation template reference,
"AWS::AutoScaling::AutoScalingGroup"). Nodes that never stop run from the deployment on.

Updating: a changed template or machine image reaches nodes as they are started, and a deployment ends none,
because there is no UpdatePolicy. To change running ones after their job: `aws autoscaling
start-instance-refresh --auto-scaling-group-name NAME --preferences ScaleInProtectedInstances=Wait`. A running
job protects its nodes from every scaling in (slipway-node sets that), so the rules here never end one.
"""

from __future__ import annotations

from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from slipway.infra.declare.types import MpiCluster
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.foundation import Foundation
from slipway.infra.patterns.nodes.launch_template import NodeTemplate
from slipway.infra.patterns.nodes.network_interfaces import placement_group
from slipway.infra.patterns.observability.alarms import REPORT_EVERY_MINUTES
from slipway.jobs.words.names import (
    CLUSTER_DIMENSION,
    IDLE_METRIC,
    METRIC_NAMESPACE,
    cap_alarm_name,
    derived_name,
    idle_alarm_name,
)

_COOLDOWN_SECONDS = 300
_PERIOD_SECONDS = REPORT_EVERY_MINUTES * 60
_MOST_HOURS = 6
_IN_SERVICE = "GroupInServiceInstances"
_COLLECTED = autoscaling.CfnAutoScalingGroup.MetricsCollectionProperty
_NAMED = autoscaling.CfnAutoScalingGroup.TagPropertyProperty


class NodeGroup(Construct):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: MpiCluster,
        base: Foundation,
        template: NodeTemplate,
        node_role: ServiceRole,
    ) -> None:
        super().__init__(scope, id)
        nodes = str(cluster.max_nodes)
        comes_and_goes = any((cluster.idle_minutes, cluster.start_at, cluster.stop_at))
        self.resource = autoscaling.CfnAutoScalingGroup(
            self,
            "Resource",
            auto_scaling_group_name=node_group_name(cluster.name),
            min_size="0" if comes_and_goes else nodes,
            max_size=nodes,
            vpc_zone_identifier=[base.subnet_id],
            placement_group=placement_group(self, cluster),
            launch_template=autoscaling.CfnAutoScalingGroup.LaunchTemplateSpecificationProperty(
                launch_template_id=template.resource.ref, version=template.version
            ),
            # A dead node is replaced; other failures are for the job to report, and for people to look at.
            health_check_type="EC2",
            health_check_grace_period=_COOLDOWN_SECONDS,
            cooldown=str(_COOLDOWN_SECONDS),
            metrics_collection=[_COLLECTED(granularity="1Minute", metrics=[_IN_SERVICE])],
            tags=[_NAMED(key="Name", value=cluster.name, propagate_at_launch=True)],
            # A Spot node is not replaced before EC2 takes it: the exchange would end a job that might
            # continue.
            capacity_rebalance=False,
        )
        # Nodes join after their permissions exist.
        self.resource.node.add_dependency(node_role.policy)
        _stop_by_itself(self, cluster, base.alerts.topic_arn)
        _at(self, "Start", cluster, when=cluster.start_at, nodes=cluster.max_nodes)
        _at(self, "Stop", cluster, when=cluster.stop_at, nodes=0)


def node_group_name(cluster: str) -> str:
    """Return the group's name, by which the node's role knows it: neither can wait for the other's id."""
    return derived_name("node-group", cluster)


def _stop_by_itself(group: NodeGroup, cluster: MpiCluster, alerts_arn: str) -> None:
    """Stop idle nodes, and nodes that do not report at all; a job protects its nodes from both."""
    if cluster.idle_minutes is None:
        return
    to_none = autoscaling.CfnScalingPolicy(
        group,
        "ToNone",
        auto_scaling_group_name=group.resource.ref,
        policy_type="SimpleScaling",
        adjustment_type="ExactCapacity",
        scaling_adjustment=0,
        cooldown=str(_COOLDOWN_SECONDS),
    )
    cloudwatch.CfnAlarm(
        group,
        "AllIdle",
        alarm_name=idle_alarm_name(cluster.name),
        alarm_description=f"No node of {cluster.name} had a job in {cluster.idle_minutes} minutes: all stop",
        metrics=_all_idle(cluster.name),
        evaluation_periods=cluster.idle_minutes // REPORT_EVERY_MINUTES,
        threshold=1,
        comparison_operator="GreaterThanOrEqualToThreshold",
        treat_missing_data="notBreaching",
        alarm_actions=[to_none.ref],
    )
    # Nodes whose boot failed before they could report that they idle, which nothing else would stop. Auto
    # Scaling itself counts them. Nodes of a job are protected, and stop when it has ended.
    cloudwatch.CfnAlarm(
        group,
        "TooLong",
        alarm_name=cap_alarm_name(cluster.name),
        alarm_description=f"Nodes of {cluster.name} have run for {_MOST_HOURS} hours: all without a job stop",
        namespace="AWS/AutoScaling",
        metric_name=_IN_SERVICE,
        dimensions=[
            cloudwatch.CfnAlarm.DimensionProperty(name="AutoScalingGroupName", value=group.resource.ref)
        ],
        statistic="Minimum",
        period=_PERIOD_SECONDS,
        evaluation_periods=_MOST_HOURS * 3600 // _PERIOD_SECONDS,
        threshold=1,
        comparison_operator="GreaterThanOrEqualToThreshold",
        treat_missing_data="notBreaching",
        alarm_actions=[to_none.ref, alerts_arn],
    )


def _all_idle(cluster: str) -> list[cloudwatch.CfnAlarm.MetricDataQueryProperty]:
    """Return 1 for a period in which every reporting node was idle, and 0 if none reported.

    The zero turns the alarm off. If data is missing, an alarm looks further back, finds the reports of
    stopped nodes, and scales to none as long as it is on (Amazon CloudWatch user guide, "Alarm evaluation"):
    it would stop the nodes of the next job as they start.
    """
    query = cloudwatch.CfnAlarm.MetricDataQueryProperty
    reports = cloudwatch.CfnAlarm.MetricStatProperty(
        metric=cloudwatch.CfnAlarm.MetricProperty(
            namespace=METRIC_NAMESPACE,
            metric_name=IDLE_METRIC,
            dimensions=[cloudwatch.CfnAlarm.DimensionProperty(name=CLUSTER_DIMENSION, value=cluster)],
        ),
        period=_PERIOD_SECONDS,
        stat="Minimum",  # of 1 for an idle node and 0 for a busy one: 1 if none is busy
    )
    return [
        query(id="reports", metric_stat=reports, return_data=False),
        query(id="idle", expression="FILL(reports, 0)", label="All nodes idle", return_data=True),
    ]


def _at(group: NodeGroup, id: str, cluster: MpiCluster, *, when: str | None, nodes: int) -> None:
    if when is not None:
        autoscaling.CfnScheduledAction(
            group,
            id,
            auto_scaling_group_name=group.resource.ref,
            recurrence=when,
            time_zone=cluster.time_zone,
            desired_capacity=nodes,
        )
