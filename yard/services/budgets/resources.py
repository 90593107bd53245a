"""Budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, changeable, find, generated
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope
from slipway.yard.cloudformation.resources.shapes import like


def create_budget(scope: ResourceScope) -> dict[str, Any]:
    return scope.send(
        "create_budget",
        AccountId=scope.context.account,
        Budget={**scope.properties["Budget"], "BudgetName": budget_name(scope)},
        NotificationsWithSubscribers=scope.properties.get("NotificationsWithSubscribers"),
    )


def budget_name(scope: ResourceScope) -> str:
    return scope.id or str(scope.properties["Budget"].get("BudgetName") or generated(scope.context, 100))


def rewrite_budget(scope: ResourceScope) -> None:
    """moto has no UpdateBudget: the budget is written anew under its own name."""
    scope.send("delete_budget", AccountId=scope.context.account, BudgetName=scope.id)
    create_budget(scope)


PROVIDERS: Mapping[str, Provider] = {
    "AWS::Budgets::Budget": ApiResource(
        service="budgets",
        create_call=create_budget,
        identity=budget_name,
        describe=find(
            "describe_budget", "Budget", AccountId=lambda scope: scope.context.account, BudgetName=ID
        ),
        attributes={"Id": ID},
        settings=(
            changeable("Budget", put=rewrite_budget),
            changeable("ResourceTags", put=lambda _scope: None),  # moto keeps none of a budget
        ),
        delete_call=call("delete_budget", AccountId=lambda scope: scope.context.account, BudgetName=ID),
        reads={"Budget": lambda scope: like(scope.properties["Budget"], scope.live)},
        accepts=frozenset({"Budget", "NotificationsWithSubscribers", "ResourceTags"}),
    ),
}
