"""One page on a cluster: its alarms, idle nodes, stuck jobs, and jobs' output. Also its budget."""

from __future__ import annotations

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.observability.alarms import ClusterAlarms
from slipway.jobs.words.names import CLUSTER_TAG, derived_name

_WIDTH = 24  # columns of a dashboard
_LATEST_LINES = ("fields @timestamp, @logStream, @message", "sort @timestamp desc", "limit 50")


class ClusterDashboard(Construct):
    def __init__(
        self, scope: Construct, id: str, *, cluster: str, alarms: ClusterAlarms, log_group_name: str
    ) -> None:
        super().__init__(scope, id)
        state = cloudwatch.AlarmStatusWidget(
            title=f"Cluster {cluster}",
            alarms=[alarms.stuck, alarms.silent, alarms.idle, alarms.long],
            width=_WIDTH,
        )
        metrics = {"Stuck jobs": alarms.stuck.metric, "Idle nodes, billed": alarms.idle.metric}
        graphs: list[cloudwatch.IWidget] = [
            cloudwatch.GraphWidget(title=title, left=[metric], width=_WIDTH // len(metrics))
            for title, metric in metrics.items()
        ]
        output = cloudwatch.LogQueryWidget(
            title="Latest output of jobs",
            log_group_names=[log_group_name],
            query_lines=list(_LATEST_LINES),
            width=_WIDTH,
        )
        self.resource = cloudwatch.Dashboard(
            self,
            "Resource",
            dashboard_name=derived_name("dashboard", cluster),
            widgets=[[state], graphs, [output]],
        )


# A monthly budget of a cluster, with e-mails before and after it is spent: thresholds in per cent, for what
# was spent, and for the forecast of the month.
_NOTIFICATIONS = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))


class ClusterBudget(Construct):
    """Counts all costs with the cluster's tag, once Billing has that activated as a cost allocation tag."""

    def __init__(self, scope: Construct, id: str, *, cluster: Cluster) -> None:
        super().__init__(scope, id)
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
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=sort,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(
                            subscription_type="EMAIL", address=cluster.alert_email
                        )
                    ],
                )
                for sort, percent in _NOTIFICATIONS
            ],
        )
