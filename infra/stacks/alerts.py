"""Where a cluster's alarms arrive, and its budget, for clusters whose own stack knows what to watch."""

from __future__ import annotations

from dataclasses import dataclass

from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.network.cluster_network import ClusterNetwork
from slipway.infra.patterns.observability.alarms import AlertTopic, AlertTopicProps
from slipway.infra.patterns.observability.budget import ClusterBudget, ClusterBudgetProps


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsStackProps:
    cluster: Cluster
    network: ClusterNetwork


class AlertsStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: AlertsStackProps) -> None:
        cluster = props.cluster
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self.topic = AlertTopic(
            self, "Alerts", props=AlertTopicProps(key=props.network.log_key, email=cluster.alert_email)
        ).topic
        ClusterBudget(self, "Budget", props=ClusterBudgetProps(cluster=cluster))
