"""No custom resource runs unseen in a template; its budget counts what it should, and tells somebody."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.verify.rules.template import Finding, Template, as_list, resources
from slipway.jobs.words.names import CLUSTER_TAG


def nothing_runs_hidden(template: Template) -> Iterator[Finding]:
    """Refuse custom resources: each is a Lambda with its own rights, which can fail unseen."""
    hidden = resources(template, "Custom::", "AWS::Lambda::", "AWS::CloudFormation::CustomResource")
    for name, _ in hidden:
        yield Finding(where=name, message="is a Lambda or a custom resource; none is allowed, replace it")


def budget_tells_somebody(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, "AWS::Budgets::Budget"):
        told = [
            subscriber.get("SubscriptionType")
            for each in properties.get("NotificationsWithSubscribers", [])
            for subscriber in each.get("Subscribers", [])
        ]
        if "EMAIL" not in told:
            yield Finding(where=name, message="has no notification by e-mail")


def budget_counts_by_our_tag(template: Template) -> Iterator[Finding]:
    """Require the tag whose activation `slipway preflight` asks for: by another a budget counts nothing."""
    for name, properties in resources(template, "AWS::Budgets::Budget"):
        counted = as_list(properties.get("Budget", {}).get("CostFilters", {}).get("TagKeyValue"))
        if not counted or not all(str(each).startswith(f"user:{CLUSTER_TAG}$") for each in counted):
            yield Finding(where=name, message=f"has to count by the tag {CLUSTER_TAG}, and by no other")
