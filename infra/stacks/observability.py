"""What tells how a cluster does: its jobs' output, a dashboard, alarms and a budget that write e-mails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aws_cdk import Environment, Stack
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.patterns.observability.alarms import (
    AlertTopic,
    AlertTopicProps,
    ClusterAlarms,
    ClusterAlarmsProps,
    StuckEvents,
)
from slipway.infra.patterns.observability.budget import ClusterBudget, ClusterBudgetProps
from slipway.infra.patterns.observability.dashboard import ClusterDashboard, ClusterDashboardProps
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup, EncryptedLogGroupProps


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilityProps:
    cluster: str
    stack_name: str
    env: Environment
    log_key: kms.IKey
    log_retention_days: int
    keep_data: bool
    stuck: Callable[[Construct], StuckEvents]
    dashboard_name: str
    budget_usd_per_month: int
    alert_email: str


class ObservabilityStack(Stack):
    """It knows what it watches by its name only, so that it can stand before that and outlive it."""

    def __init__(self, scope: Construct, id: str, *, props: ObservabilityProps) -> None:
        super().__init__(scope, id, stack_name=props.stack_name, env=props.env)
        self._props = props
        self.job_logs = self.add_log_group("JobLogs")
        topic = AlertTopic(
            self, "Alerts", props=AlertTopicProps(key=props.log_key, email=props.alert_email)
        ).topic
        alarms = ClusterAlarms(
            self,
            "Alarms",
            props=ClusterAlarmsProps(cluster=props.cluster, stuck=props.stuck, topic=topic),
        )
        ClusterDashboard(
            self,
            "Dashboard",
            props=ClusterDashboardProps(
                name=props.dashboard_name,
                cluster=props.cluster,
                alarms=alarms,
                log_group_name=self.job_logs.name,
            ),
        )
        ClusterBudget(
            self,
            "Budget",
            props=ClusterBudgetProps(
                cluster=props.cluster, usd_per_month=props.budget_usd_per_month, email=props.alert_email
            ),
        )

    def add_log_group(self, id: str) -> EncryptedLogGroup:
        return EncryptedLogGroup(
            self,
            id,
            props=EncryptedLogGroupProps(
                key=self._props.log_key,
                retention_days=self._props.log_retention_days,
                keep=self._props.keep_data,
            ),
        )
