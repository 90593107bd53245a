"""A cluster on HyperPod that fails or rolls back is mailed, with HyperPod's reason.

An event of EventBridge tells it (SageMaker developer guide, "SageMaker HyperPod Cluster State Change"); no
metric does.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_sns as sns
from constructs import Construct

from slipway.infra.patterns.sagemaker.mailed_events import MailedEvents, event_detail, mail_events

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
        message = (
            f"Slipway cluster {props.cluster} on HyperPod is {event_detail('ClusterStatus')}: "
            f"{event_detail('FailureMessage')}"
        )
        mailed = MailedEvents(
            description=f"Slipway cluster {props.cluster} on HyperPod failed",
            changed=_CHANGED,
            detail={"ClusterName": [props.name], "ClusterStatus": [*_BAD]},
            message=message,
        )
        mail_events(self, mailed, props.topic)
