"""Training jobs that failed are mailed, each with SageMaker's reason, and raise an alarm.

SageMaker has no metric of it. The event names the role of the job, which is of one cluster alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_sns as sns
from constructs import Construct

from slipway.infra.patterns.sagemaker.mailed_events import MailedEvents, event_detail, mail_events

_CHANGED = "SageMaker Training Job State Change"
_PERIOD = Duration.minutes(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJobsProps:
    cluster: str
    role_arn: str  # of the cluster's jobs
    topic: sns.ITopic


class FailedJobs(Construct):
    def __init__(self, scope: Construct, id: str, *, props: FailedJobsProps) -> None:
        super().__init__(scope, id)
        message = (
            f"Job {event_detail('TrainingJobName')} of Slipway cluster {props.cluster} failed: "
            f"{event_detail('FailureReason')}"
        )
        mailed = MailedEvents(
            description=f"Training jobs of Slipway cluster {props.cluster} that failed",
            changed=_CHANGED,
            detail={"TrainingJobStatus": ["Failed"], "RoleArn": [props.role_arn]},
            message=message,
        )
        rule = mail_events(self, mailed, props.topic)
        self.alarm = _alarm(self, props.cluster, rule)
        self.alarm.add_alarm_action(actions.SnsAction(props.topic))


def _alarm(scope: Construct, cluster: str, rule: events.Rule) -> cloudwatch.Alarm:
    return cloudwatch.Alarm(
        scope,
        "Alarm",
        alarm_description=f"Jobs of {cluster} fail: `slipway explain JOB`",
        metric=cloudwatch.Metric(
            namespace="AWS/Events",
            metric_name="TriggeredRules",
            dimensions_map={"RuleName": rule.rule_name},
            statistic="Sum",
            period=_PERIOD,
        ),
        threshold=1,
        evaluation_periods=1,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )
