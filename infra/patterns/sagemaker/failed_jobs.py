"""Training jobs that failed are mailed, each with SageMaker's reason, and raise an alarm.

SageMaker has no metric of it. The event names the role of the job, which is of one cluster alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

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
        rule = events.Rule(
            self,
            "Events",
            description=f"Training jobs of Slipway cluster {props.cluster} that failed",
            event_pattern=events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=[_CHANGED],
                detail={"TrainingJobStatus": ["Failed"], "RoleArn": [props.role_arn]},
            ),
        )
        message = (
            f"Job {_detail('TrainingJobName')} of Slipway cluster {props.cluster} failed: "
            f"{_detail('FailureReason')}"
        )
        rule.add_target(targets.SnsTopic(props.topic, message=events.RuleTargetInput.from_text(message)))
        self.alarm = _alarm(self, props.cluster, rule)
        self.alarm.add_alarm_action(actions.SnsAction(props.topic))


def _detail(field: str) -> str:
    return events.EventField.from_path(f"$.detail.{field}")


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
