"""Reports on a cluster: its jobs' output, a dashboard, alarms and a budget that send e-mails."""

from __future__ import annotations

from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.observability.alarms import AlertTopic, ClusterAlarms, Stuck
from slipway.infra.patterns.observability.dashboard import ClusterBudget, ClusterDashboard


class ObservabilityStack(DeclaredStack):
    """Knows what it watches only by name, so that it is made before the rest and outlives it."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, network: ClusterNetwork, stuck: Stuck
    ) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self._cluster, self._key = cluster, network.log_key
        self.job_logs = self.add_log_group("JobLogs")
        self.alerts = AlertTopic(self, "Alerts", key=self._key, email=cluster.alert_email).topic
        alarms = ClusterAlarms(self, "Alarms", cluster=cluster.name, stuck=stuck, topic=self.alerts)
        ClusterDashboard(
            self, "Dashboard", cluster=cluster.name, alarms=alarms, log_group_name=self.job_logs.name
        )
        ClusterBudget(self, "Budget", cluster=cluster)

    def add_log_group(self, id: str) -> EncryptedLogGroup:
        days, keep = self._cluster.log_retention_days, self._cluster.keep_data
        return EncryptedLogGroup(self, id, key=self._key, retention_days=days, keep=keep)


# The topic of a cluster's alarms, and its budget, for clusters whose own stack knows what to watch.


class AlertsStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, cluster: Cluster, network: ClusterNetwork) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self.alerts = AlertTopic(self, "Alerts", key=network.log_key, email=cluster.alert_email).topic
        ClusterBudget(self, "Budget", cluster=cluster)
