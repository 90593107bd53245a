"""What SageMaker tells EventBridge: such events are mailed, in a sentence of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct


@dataclass(frozen=True, slots=True, kw_only=True)
class MailedEvents:
    description: str
    changed: str  # what kind of event, as EventBridge calls it
    detail: Mapping[str, Sequence[str]]  # which of them
    message: str  # may hold fields of the event: event_detail


def mail_events(scope: Construct, mailed: MailedEvents, topic: sns.ITopic) -> events.Rule:
    rule = events.Rule(
        scope,
        "Events",
        description=mailed.description,
        event_pattern=events.EventPattern(
            source=["aws.sagemaker"], detail_type=[mailed.changed], detail=mailed.detail
        ),
    )
    rule.add_target(targets.SnsTopic(topic, message=events.RuleTargetInput.from_text(mailed.message)))
    return rule


def event_detail(field: str) -> str:
    return events.EventField.from_path(f"$.detail.{field}")
