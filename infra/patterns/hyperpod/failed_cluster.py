"""A cluster on HyperPod that fails or rolls back is mailed, with HyperPod's reason.

An event of EventBridge tells it (SageMaker developer guide, "SageMaker HyperPod Cluster State Change"); no
metric does.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

_CHANGED = "SageMaker HyperPod Cluster State Change"
_BAD = ("Failed", "RollingBack")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedClusterProps:
    cluster: str  # as it is declared
    name: str  # of HyperPod's cluster
    topic: sns.ITopic


class FailedCluster(Construct):
    def __init__(self, scope: Construct, id: str, *, props: FailedClusterProps) -> None:
        super().__init__(scope, id)
        rule = events.Rule(
            self,
            "Events",
            description=f"Slipway cluster {props.cluster} on HyperPod failed",
            event_pattern=events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=[_CHANGED],
                detail={"ClusterName": [props.name], "ClusterStatus": list(_BAD)},
            ),
        )
        message = (
            f"Slipway cluster {props.cluster} on HyperPod is {_detail('ClusterStatus')}: "
            f"{_detail('FailureMessage')}"
        )
        rule.add_target(targets.SnsTopic(props.topic, message=events.RuleTargetInput.from_text(message)))


def _detail(field: str) -> str:
    return events.EventField.from_path(f"$.detail.{field}")
