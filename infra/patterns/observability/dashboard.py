"""One page on a cluster: its alarms, what idles, what is stuck, and what jobs say."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.observability.alarms import ClusterAlarms
from slipway.jobs.words.names import CLUSTER_TAG, derived_name

_WIDTH = 24  # columns of a dashboard
_LATEST_LINES = ("fields @timestamp, @logStream, @message", "sort @timestamp desc", "limit 50")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDashboardProps:
    cluster: str
    alarms: ClusterAlarms
    log_group_name: str


class ClusterDashboard(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ClusterDashboardProps) -> None:
        super().__init__(scope, id)
        self.resource = cloudwatch.Dashboard(
            self,
            "Resource",
            dashboard_name=derived_name("dashboard", props.cluster),
            widgets=[[_alarms(props)], _graphs(props), [_output(props)]],
        )


def _alarms(props: ClusterDashboardProps) -> cloudwatch.IWidget:
    alarms: list[cloudwatch.IAlarm] = [
        props.alarms.stuck,
        props.alarms.silent,
        props.alarms.idle,
        props.alarms.long,
    ]
    return cloudwatch.AlarmStatusWidget(title=f"Cluster {props.cluster}", alarms=alarms, width=_WIDTH)


def _graphs(props: ClusterDashboardProps) -> list[cloudwatch.IWidget]:
    metrics = {"Stuck jobs": props.alarms.stuck.metric, "Idle nodes, billed": props.alarms.idle.metric}
    return [
        cloudwatch.GraphWidget(title=title, left=[metric], width=_WIDTH // len(metrics))
        for title, metric in metrics.items()
    ]


def _output(props: ClusterDashboardProps) -> cloudwatch.IWidget:
    return cloudwatch.LogQueryWidget(
        title="Latest output of jobs",
        log_group_names=[props.log_group_name],
        query_lines=list(_LATEST_LINES),
        width=_WIDTH,
    )


# A monthly budget of a cluster, with e-mails before and after it is spent.
# What was spent, in per cent of the budget, and what will be when the month goes on like this.
_NOTIFICATIONS = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBudgetProps:
    cluster: Cluster


class ClusterBudget(Construct):
    """Counts what carries the cluster's tag, once that is activated as a cost allocation tag in Billing."""

    def __init__(self, scope: Construct, id: str, *, props: ClusterBudgetProps) -> None:
        super().__init__(scope, id)
        cluster = props.cluster
        self.resource = budgets.CfnBudget(
            self,
            "Resource",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=cluster.budget_usd_per_month, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{CLUSTER_TAG}${cluster.name}"]},
            ),
            notifications_with_subscribers=[
                _notification(sort, percent, cluster.alert_email) for sort, percent in _NOTIFICATIONS
            ],
        )


def _notification(
    sort: str, percent: int, email: str
) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            notification_type=sort,
            comparison_operator="GREATER_THAN",
            threshold=percent,
            threshold_type="PERCENTAGE",
        ),
        subscribers=[budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email)],
    )
