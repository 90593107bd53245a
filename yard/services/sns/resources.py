"""Resource types of SNS (topics, subscriptions, policies) and Budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    Setting,
    call,
    changeable,
    find,
    generated,
    mirrored,
    setting,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, is_gone, prop, response, tolerating
from slipway.yard.cloudformation.resources.shapes import like
from slipway.yard.services.sns.subscriptions import PENDING

# Properties that are attributes of a topic in SNS, all of them strings.
TOPIC_ATTRIBUTES = (
    "ContentBasedDeduplication DataProtectionPolicy DisplayName FifoThroughputScope KmsMasterKeyId "
    "SignatureVersion TracingConfig"
)
SUBSCRIPTION_ATTRIBUTES = (
    "DeliveryPolicy FilterPolicy FilterPolicyScope RawMessageDelivery RedrivePolicy SubscriptionRoleArn"
)


def attributes(operation: str, names: str, **which: Any) -> tuple[Setting, ...]:
    """Return a Setting for each attribute; `which` names the topic or the subscription in the call."""
    return tuple(
        setting(name, put=call(operation, **which, AttributeName=name, AttributeValue=prop(name, "")))
        for name in names.split()
    )


def subscribe(scope: ResourceScope) -> None:
    """Create and remove the subscriptions that the template lists within the topic."""
    for item in scope.removed("Subscription"):
        for found in scope.send("list_subscriptions_by_topic", TopicArn=scope.id)["Subscriptions"]:
            is_it = (found["Protocol"], found["Endpoint"]) == (item["Protocol"], item["Endpoint"])
            if is_it and found["SubscriptionArn"] != PENDING:  # an unconfirmed one cannot be removed
                scope.send("unsubscribe", SubscriptionArn=found["SubscriptionArn"])
    for item in scope.added("Subscription"):
        scope.send("subscribe", TopicArn=scope.id, Protocol=item["Protocol"], Endpoint=item["Endpoint"])


def put_topic_policy(scope: ResourceScope) -> None:
    for topic in scope.removed("Topics"):
        reset_topic_policy(scope, topic)
    for topic in scope.properties["Topics"]:
        document = scope.properties["PolicyDocument"]
        scope.send("set_topic_attributes", TopicArn=topic, AttributeName="Policy", AttributeValue=document)


def reset_topic_policy(scope: ResourceScope, topic: str) -> None:
    """Set the default policy, which allows the owner everything: a topic always has a policy."""
    owner = {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["SNS:Publish", "SNS:Subscribe", "SNS:GetTopicAttributes", "SNS:SetTopicAttributes"],
        "Resource": topic,
        "Condition": {"StringEquals": {"AWS:SourceOwner": scope.context.account}},
    }
    policy = {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [owner]}
    with tolerating(is_gone):
        scope.send("set_topic_attributes", TopicArn=topic, AttributeName="Policy", AttributeValue=policy)


def delete_topic_policy(scope: ResourceScope) -> None:
    for topic in scope.properties["Topics"]:
        reset_topic_policy(scope, topic)


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
    """Delete the budget and make it again under its name: moto has no UpdateBudget."""
    scope.send("delete_budget", AccountId=scope.context.account, BudgetName=scope.id)
    create_budget(scope)


PROVIDERS: Mapping[str, Provider] = {
    "AWS::SNS::Topic": ApiResource(
        service="sns",
        name=Name(property="TopicName", limit=256),
        create_call=call(
            "create_topic",
            Name=prop("TopicName"),
            Attributes=lambda scope: {"FifoTopic": "true"} if scope.properties.get("FifoTopic") else None,
            Tags=prop("Tags"),
        ),
        identity=response("TopicArn"),
        describe=find("get_topic_attributes", "Attributes", TopicArn=ID),
        attributes={"TopicArn": ID, "TopicName": lambda scope: scope.id.rsplit(":", 1)[-1]},
        settings=(
            *attributes("set_topic_attributes", TOPIC_ATTRIBUTES, TopicArn=ID),
            setting("Subscription", put=subscribe),
            tags(ResourceArn=ID),
        ),
        delete_call=call("delete_topic", TopicArn=ID),
        reads=mirrored("DisplayName KmsMasterKeyId"),
        accepts="TopicName FifoTopic Tags",
    ),
    "AWS::SNS::Subscription": ApiResource(
        service="sns",
        create_call=shaped("subscribe", ReturnSubscriptionArn=True),
        identity=response("SubscriptionArn"),
        attributes={"Arn": ID},
        settings=attributes("set_subscription_attributes", SUBSCRIPTION_ATTRIBUTES, SubscriptionArn=ID),
        delete_call=call("unsubscribe", SubscriptionArn=ID),
        accepts="Region",
    ),
    "AWS::SNS::TopicPolicy": ApiResource(
        service="sns",
        identity=lambda scope: generated(scope.context, 128),
        attributes={"Id": ID},
        settings=(setting("PolicyDocument Topics", put=put_topic_policy),),
        delete_call=delete_topic_policy,
    ),
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
            changeable("ResourceTags", put=lambda _scope: None),  # moto keeps no tags of budgets
        ),
        delete_call=call("delete_budget", AccountId=lambda scope: scope.context.account, BudgetName=ID),
        reads={"Budget": lambda scope: like(scope.properties["Budget"], scope.live)},
        accepts="Budget NotificationsWithSubscribers ResourceTags",
    ),
}
