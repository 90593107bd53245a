"""What a cluster mails to its owner: jobs that are stuck, and nodes that idle and are billed.

A new alarm is one of ClusterAlarms; what stops the jobs of a new kind of cluster is a function like
blocked_queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from slipway.infra.patterns.statements import ACCOUNT_ID
from slipway.jobs.words.names import (
    CLUSTER_DIMENSION,
    IDLE_METRIC,
    METRIC_NAMESPACE,
    NOT_JOINED_METRIC,
)

_IDLE_MINUTES = 30
_LATE_MINUTES = 10  # after the five in which every node boots
_LONG_HOURS = 24  # the longest that an alarm of this period can look back


class AlertTopic(Construct):
    def __init__(self, scope: Construct, id: str, *, key: kms.IKey, email: str) -> None:
        super().__init__(scope, id)
        # By its ARN, or the CDK would widen the key's policy, which allows the services already.
        by_arn = kms.Key.from_key_arn(self, "Key", key.key_arn)
        self.topic = sns.Topic(self, "Resource", master_key=by_arn, enforce_ssl=True)
        # What a topic's default policy allows: this topic's own policy replaces that.
        publish = iam.PolicyStatement(
            sid="PublishAlarms",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[self.topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": ACCOUNT_ID}},
        )
        self.topic.add_to_resource_policy(publish)
        self.topic.add_subscription(subscriptions.EmailSubscription(email))


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckEvents:
    """Describes an event that tells why jobs do not run, and the sentence that is mailed for it."""

    what: str
    source: str
    detail_type: str
    detail: Mapping[str, Sequence[str]]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckMetric:
    """Describes a metric that counts the jobs that do not run, if no event reports them."""

    what: str
    metric: cloudwatch.IMetric


# Makes, in a scope, what tells why jobs do not run.
Stuck = Callable[[Construct], StuckEvents | StuckMetric]


class ClusterAlarms(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: str, stuck: Stuck, topic: sns.ITopic) -> None:
        super().__init__(scope, id)
        found = stuck(self)
        counted = found.metric if isinstance(found, StuckMetric) else events_of(_mailed(self, found, topic))
        what = f"{found.what}: see `slipway preflight`"
        self.stuck = alarm_at_one(self, "StuckJobs", what, metric=counted, periods=1)
        # Nodes report: no service of AWS has a metric for a billed node without a job. One that never sent
        # its first report is not counted: its job is stuck, and that raises an alarm.
        idle = _metric(IDLE_METRIC, cluster)
        self.idle = alarm_at_one(
            self,
            "IdleNodes",
            f"Cluster {cluster} has paid {_IDLE_MINUTES} minutes for nodes without a job",
            metric=idle,
            periods=_IDLE_MINUTES // REPORT_EVERY_MINUTES,
        )
        # Once a day, whatever nodes do: a job may never end.
        self.long = alarm_at_one(
            self,
            "NodesForADay",
            f"Cluster {cluster} has paid for nodes {_LONG_HOURS} hours without a pause",
            metric=idle.with_(statistic="SampleCount", period=Duration.hours(1)),
            periods=_LONG_HOURS,
        )
        # Nodes that are late to join; each ends itself some time after that.
        self.silent = alarm_at_one(
            self,
            "NodesNotJoined",
            f"Nodes of {cluster} do not join, and end themselves: `slipway explain JOB`",
            metric=_metric(NOT_JOINED_METRIC, cluster),
            periods=_LATE_MINUTES // REPORT_EVERY_MINUTES,
        )
        mail = actions.SnsAction(topic)
        for alarm in (self.stuck, self.idle, self.long, self.silent):
            alarm.add_alarm_action(mail)


def blocked_queue(cluster: str, job_queue_name: str) -> Callable[[Construct], StuckEvents]:
    """Watch for jobs stuck in RUNNABLE (AWS Batch user guide, "Job queue blocked events")."""

    def stuck(scope: Construct) -> StuckEvents:
        queue_arn = Stack.of(scope).format_arn(
            service="batch",
            resource="job-queue",
            resource_name=job_queue_name,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
        name, job, reason = map(event_detail, ("jobName", "jobId", "statusReason"))
        return StuckEvents(
            what=f"Jobs of cluster {cluster} that are stuck in RUNNABLE",
            source="aws.batch",
            detail_type="Batch Job Queue Blocked",
            detail={"jobQueue": [queue_arn]},
            message=f"Job {name} ({job}) blocks the queue of Slipway cluster {cluster}: {reason} "
            "Its nodes may be billed meanwhile. It is cancelled if that lasts.",
        )

    return stuck


def failed_launches(cluster: str, node_group: str) -> Callable[[Construct], StuckEvents]:
    """Watch for "EC2 Instance Launch Unsuccessful": no capacity, no quota, or no rights."""
    stuck = StuckEvents(
        what=f"Nodes of cluster {cluster} that could not be started",
        source="aws.autoscaling",
        detail_type="EC2 Instance Launch Unsuccessful",
        detail={"AutoScalingGroupName": [node_group]},
        message=f"A node of Slipway cluster {cluster} could not be started: {event_detail('StatusMessage')}",
    )
    return lambda _scope: stuck


def event_detail(field: str) -> str:
    return events.EventField.from_path(f"$.detail.{field}")


def _mailed(scope: Construct, stuck: StuckEvents, topic: sns.ITopic) -> events.Rule:
    rule = events.Rule(
        scope,
        "StuckJobEvents",
        description=stuck.what,
        event_pattern=events.EventPattern(
            source=[stuck.source],
            detail_type=[stuck.detail_type],
            detail={field: list(values) for field, values in stuck.detail.items()},
        ),
    )
    rule.add_target(targets.SnsTopic(topic, message=events.RuleTargetInput.from_text(stuck.message)))
    return rule


def events_of(rule: events.Rule) -> cloudwatch.IMetric:
    """Count the rule's events, since AWS reports them in no metric."""
    return cloudwatch.Metric(
        namespace="AWS/Events",
        metric_name="TriggeredRules",
        dimensions_map={"RuleName": rule.rule_name},
        statistic="Sum",
        period=Duration.minutes(5),
    )


def alarm_at_one(
    scope: Construct, id: str, description: str, *, metric: cloudwatch.IMetric, periods: int
) -> cloudwatch.Alarm:
    """Alarm if something was counted in each of this many periods; no data is fine."""
    return cloudwatch.Alarm(
        scope,
        id,
        alarm_description=description,
        metric=metric,
        threshold=1,
        evaluation_periods=periods,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )


# Nodes' reports on themselves: that they are billed and have no job, and that they cannot join.
REPORT_EVERY_MINUTES = 5  # from infra/boot/units/slipway-idle.timer


def _metric(name: str, cluster: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=METRIC_NAMESPACE,
        metric_name=name,
        dimensions_map={CLUSTER_DIMENSION: cluster},
        statistic="Sum",
        period=Duration.minutes(REPORT_EVERY_MINUTES),
    )


# Machines that AWS PCS could not start or end, counted from its scaling log, with an alarm. A metric filter's
# only dimensions are fields of the log, so the namespace names the cluster.
LAUNCH_FAILURES = "LaunchFailures"


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
            period=Duration.minutes(5),
        ),
    )
    return lambda _scope: stuck
