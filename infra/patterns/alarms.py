"""What a cluster tells its owner by e-mail: jobs that are stuck, and nodes that idle and are billed.

A new alarm is one function and one line in ClusterAlarms.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.patterns.idle_metric import REPORT_EVERY_MINUTES, idle_metric

_IDLE_MINUTES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTopicProps:
    key: kms.IKey
    email: str


class AlertTopic(Construct):
    def __init__(self, scope: Construct, id: str, *, props: AlertTopicProps) -> None:
        super().__init__(scope, id)
        # By its ARN, or the CDK would widen the key's policy, which allows the services already.
        key = kms.Key.from_key_arn(self, "Key", props.key.key_arn)
        self.topic = sns.Topic(self, "Resource", master_key=key, enforce_ssl=True)
        self.topic.add_subscription(subscriptions.EmailSubscription(props.email))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAlarmsProps:
    cluster: str
    job_queue_name: str
    topic: sns.ITopic


class ClusterAlarms(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ClusterAlarmsProps) -> None:
        super().__init__(scope, id)
        self.stuck = _stuck_jobs(self, props)
        self.idle = _idle_nodes(self, props)
        for alarm in (self.stuck, self.idle):
            alarm.add_alarm_action(actions.SnsAction(props.topic))


def _stuck_jobs(scope: Construct, props: ClusterAlarmsProps) -> cloudwatch.Alarm:
    """Batch says so only in an event, which is mailed as it comes; the alarm counts them."""
    return cloudwatch.Alarm(
        scope,
        "StuckJobs",
        alarm_description=f"A job of cluster {props.cluster} is stuck in RUNNABLE: see `slipway preflight`",
        metric=cloudwatch.Metric(
            namespace="AWS/Events",
            metric_name="TriggeredRules",
            dimensions_map={"RuleName": _stuck_job_events(scope, props).rule_name},
            statistic="Sum",
            period=Duration.minutes(5),
        ),
        threshold=1,
        evaluation_periods=1,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )


def _stuck_job_events(scope: Construct, props: ClusterAlarmsProps) -> events.Rule:
    """AWS Batch user guide, "Job queue blocked events"."""
    queue_arn = Stack.of(scope).format_arn(
        service="batch",
        resource="job-queue",
        resource_name=props.job_queue_name,
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )
    rule = events.Rule(
        scope,
        "StuckJobEvents",
        description=f"Jobs of cluster {props.cluster} that are stuck in RUNNABLE",
        event_pattern=events.EventPattern(
            source=["aws.batch"],
            detail_type=["Batch Job Queue Blocked"],
            detail={"jobQueue": [queue_arn]},
        ),
    )
    name, job, reason = (
        events.EventField.from_path(f"$.detail.{field}") for field in ("jobName", "jobId", "statusReason")
    )
    message = f"Job {name} ({job}) blocks the queue of Slipway cluster {props.cluster}: {reason}"
    rule.add_target(targets.SnsTopic(props.topic, message=events.RuleTargetInput.from_text(message)))
    return rule


def _idle_nodes(scope: Construct, props: ClusterAlarmsProps) -> cloudwatch.Alarm:
    """Nodes report it themselves: neither Batch, ECS nor EC2 has a metric for a billed node without a job.

    A node that never got as far as its first report is not seen here: its job is stuck, and that is.
    """
    return cloudwatch.Alarm(
        scope,
        "IdleNodes",
        alarm_description=f"Cluster {props.cluster} has paid {_IDLE_MINUTES} minutes for nodes without a job",
        metric=idle_metric(props.cluster),
        threshold=1,
        evaluation_periods=_IDLE_MINUTES // REPORT_EVERY_MINUTES,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )
