"""What tells how a cluster does: its jobs' output, a dashboard, alarms and a budget that write e-mails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup, EncryptedLogGroupProps
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.observability.alarms import (
    AlertTopic,
    AlertTopicProps,
    ClusterAlarms,
    ClusterAlarmsProps,
    StuckEvents,
    StuckMetric,
)
from slipway.infra.patterns.observability.dashboard import (
    ClusterBudget,
    ClusterBudgetProps,
    ClusterDashboard,
    ClusterDashboardProps,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilityStackProps:
    cluster: Cluster
    network: ClusterNetwork
    stuck: Callable[[Construct], StuckEvents | StuckMetric]  # tells why jobs do not run


class ObservabilityStack(DeclaredStack):
    """Knows what it watches by name only, so that it is made before the rest and outlives it."""

    def __init__(self, scope: Construct, id: str, *, props: ObservabilityStackProps) -> None:
        cluster, key = props.cluster, props.network.log_key
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self._props = props
        self.job_logs = self.add_log_group("JobLogs")
        self.alerts = AlertTopic(
            self, "Alerts", props=AlertTopicProps(key=key, email=cluster.alert_email)
        ).topic
        alarms = ClusterAlarms(
            self,
            "Alarms",
            props=ClusterAlarmsProps(cluster=cluster.name, stuck=props.stuck, topic=self.alerts),
        )
        ClusterDashboard(
            self,
            "Dashboard",
            props=ClusterDashboardProps(
                cluster=cluster.name, alarms=alarms, log_group_name=self.job_logs.name
            ),
        )
        ClusterBudget(self, "Budget", props=ClusterBudgetProps(cluster=cluster))

    def add_log_group(self, id: str) -> EncryptedLogGroup:
        cluster, key = self._props.cluster, self._props.network.log_key
        props = EncryptedLogGroupProps(
            key=key, retention_days=cluster.log_retention_days, keep=cluster.keep_data
        )
        return EncryptedLogGroup(self, id, props=props)


# Where a cluster's alarms arrive, and its budget, for clusters whose own stack knows what to watch.


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
