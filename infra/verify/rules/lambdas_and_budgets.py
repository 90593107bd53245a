"""No custom resource runs unseen in a template, and its budget tells somebody."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.verify.rules.template import Finding, Template, resources


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
