"""Rules for messages: a topic's policy and its key's policy must both admit every publisher.

Nothing on AWS fails if one does not. The message is dropped, and its recipient is not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipway.infra.verify.rules.template import (
    Finding,
    Properties,
    Template,
    as_list,
    checks,
    logical_id,
    resources,
    rule,
    services_in,
)
from slipway.jobs.words.names import CLUSTER_TAG

_ALARMS = "cloudwatch.amazonaws.com"
_EVENTS = "events.amazonaws.com"
_BUDGETS = "budgets.amazonaws.com"
_TOPIC = "AWS::SNS::Topic"
_KEY = "AWS::KMS::Key"
_ALARM_ACTIONS = ("AlarmActions", "InsufficientDataActions", "OKActions")
# What a publisher needs of the topic's key (Amazon SNS developer guide, "Key management").
_KEY_USE = ("kms:Decrypt", "kms:GenerateDataKey")
_SOURCES = ("aws:sourceaccount", "aws:sourcearn", "aws:sourceowner")


@rule("delivery-topic")
def topics_admit_publishers(template: Template) -> Iterator[Finding]:
    """Require an Allow for each publisher; a topic without a policy accepts only its owner's alarms."""
    policies = {
        logical_id(topic) or str(topic): _statements(properties.get("PolicyDocument"))
        for _, properties in resources(template, "AWS::SNS::TopicPolicy")
        for topic in as_list(properties.get("Topics"))
    }
    for topic, service, source in _publishers(template):
        statements = policies.get(topic)
        if statements is None and service == _ALARMS:
            continue
        if not any(_admits(statement, service, ("sns:Publish",)) for statement in statements or ()):
            yield Finding(source, f"publishes to {topic}, whose policy does not allow {service}; allow it")


@rule("delivery-key")
def keys_admit_publishers(template: Template) -> Iterator[Finding]:
    """Require use of the topic's key, if the key is in this template."""
    keys = {name: _statements(each.get("KeyPolicy")) for name, each in resources(template, _KEY)}
    topics = dict(resources(template, _TOPIC))
    for topic, service, source in _publishers(template):
        key = topics.get(topic, {}).get("KmsMasterKeyId")
        if key == "alias/aws/sns":
            words = "encrypted with AWS's own key, which admits no service; use another"
            yield Finding(source, f"publishes to {topic}, {words}")
        statements = keys.get(logical_id(key) or "")
        if statements is not None and not any(
            _admits(statement, service, _KEY_USE) for statement in statements
        ):
            words = f"whose key does not allow {service} {' and '.join(_KEY_USE)}"
            yield Finding(source, f"publishes to {topic}, {words}")


@checks("delivery-key-source", _KEY)
def keys_ask_events_for_no_source(properties: Properties) -> Iterator[str]:
    """Refuse a condition on what EventBridge does not send to KMS: it would drop every message."""
    for statement in _statements(properties.get("KeyPolicy")):
        asked = {key.lower() for test in statement.get("Condition", {}).values() for key in test}
        if _EVENTS in services_in(statement) and asked.intersection(_SOURCES):
            yield (
                f"asks {_EVENTS} for its source, which EventBridge does not tell KMS; "
                "drop the condition, and limit the topic instead"
            )


def _publishers(template: Template) -> Iterator[tuple[str, str, str]]:
    """Yield a topic of this template, the service that publishes to it, and the resource that causes it."""
    topics = {name for name, _ in resources(template, _TOPIC)}
    found: list[tuple[object, str, str]] = []
    for name, properties in resources(template, "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"):
        for kind in _ALARM_ACTIONS:
            found += ((action, _ALARMS, name) for action in as_list(properties.get(kind)))
    for name, properties in resources(template, "AWS::Events::Rule"):
        found += ((target.get("Arn"), _EVENTS, name) for target in as_list(properties.get("Targets")))
    for name, properties in resources(template, "AWS::Budgets::Budget"):
        for notification in as_list(properties.get("NotificationsWithSubscribers")):
            told = as_list(notification.get("Subscribers"))
            found += ((each.get("Address"), _BUDGETS, name) for each in told)
    for topic, service, source in found:
        if (target := logical_id(topic)) in topics:
            yield str(target), service, source


def _statements(document: object) -> list[Properties]:
    return as_list(document.get("Statement")) if isinstance(document, Mapping) else []


def _admits(statement: Properties, service: str, actions: tuple[str, ...]) -> bool:
    allowed = {str(each).lower() for each in as_list(statement.get("Action"))}
    return (
        statement.get("Effect") == "Allow"
        and service in services_in(statement)
        and all(_covers(allowed, action.lower()) for action in actions)
    )


def _covers(allowed: set[str], action: str) -> bool:
    return any(each == action or (each.endswith("*") and action.startswith(each[:-1])) for each in allowed)


# No custom resource may be hidden in a template; its budget must count by our tag, and send e-mails.


@rule("nothing-hidden")
def nothing_runs_hidden(template: Template) -> Iterator[Finding]:
    """Refuse custom resources: each is a Lambda with its own rights, which can fail unseen."""
    hidden = resources(template, "Custom::", "AWS::Lambda::", "AWS::CloudFormation::CustomResource")
    for name, _ in hidden:
        yield Finding(name, "is a Lambda or a custom resource; none is allowed, replace it")


@checks("budget-tells", "AWS::Budgets::Budget")
def budget_tells_somebody(properties: Properties) -> Iterator[str]:
    told = [
        subscriber.get("SubscriptionType")
        for each in properties.get("NotificationsWithSubscribers", [])
        for subscriber in each.get("Subscribers", [])
    ]
    if "EMAIL" not in told:
        yield "has no notification by e-mail"


@checks("budget-counts", "AWS::Budgets::Budget")
def budget_counts_by_our_tag(properties: Properties) -> Iterator[str]:
    """Require the tag that `slipway preflight` asks to activate: by another one, a budget counts nothing."""
    counted = as_list(properties.get("Budget", {}).get("CostFilters", {}).get("TagKeyValue"))
    if not counted or not all(str(each).startswith(f"user:{CLUSTER_TAG}$") for each in counted):
        yield f"has to count by the tag {CLUSTER_TAG}, and by no other"
