"""A monthly budget of a cluster, with e-mails before and after it is spent."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_budgets as budgets
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.jobs.words.names import CLUSTER_TAG

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
