"""An alarm and a rule that publish to an encrypted topic: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import GONE, BadRow

TOPIC = "AWS::SNS::Topic"
TOPIC_POLICY = "AWS::SNS::TopicPolicy"
KEY = "AWS::KMS::Key"
ALARM = "AWS::CloudWatch::Alarm"
RULE = "AWS::Events::Rule"
BUDGET = "AWS::Budgets::Budget"
ACCOUNT = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
USE = ["kms:Decrypt", "kms:GenerateDataKey*"]
PUBLISH = {"Effect": "Allow", "Action": "sns:Publish", "Resource": {"Ref": "Topic"}}


def allow(service: str, **rest: Any) -> dict[str, Any]:
    return {"Principal": {"Service": f"{service}.amazonaws.com"}, **rest}


GOOD: Mapping[str, Any] = {
    "Topic": {"Type": TOPIC, "Properties": {"KmsMasterKeyId": {"Fn::GetAtt": ["TopicKey", "Arn"]}}},
    "TopicPolicy": {
        "Type": TOPIC_POLICY,
        "Properties": {
            "Topics": [{"Ref": "Topic"}],
            "PolicyDocument": {
                "Statement": [
                    allow("cloudwatch", **PUBLISH, Condition=ACCOUNT),
                    allow("events", **PUBLISH),
                    {"Effect": "Deny", "Principal": "*", "Action": "sns:Publish", "Resource": "*"},
                ]
            },
        },
    },
    "TopicKey": {
        "Type": KEY,
        "Properties": {
            "KeyPolicy": {
                "Statement": [
                    allow("cloudwatch", Effect="Allow", Action=USE, Resource="*", Condition=ACCOUNT),
                    allow("events", Effect="Allow", Action=USE, Resource="*"),
                ]
            }
        },
    },
    "Alarm": {"Type": ALARM, "Properties": {"AlarmActions": [{"Ref": "Topic"}]}},
    "Rule": {"Type": RULE, "Properties": {"Targets": [{"Id": "Mail", "Arn": {"Ref": "Topic"}}]}},
}

_TOPIC_STATEMENTS = ("PolicyDocument", "Statement")
_KEY_STATEMENTS = ("KeyPolicy", "Statement")
_MAIL = [{"Subscribers": [{"SubscriptionType": "EMAIL"}, {"Address": {"Ref": "Topic"}}]}]

BAD: tuple[BadRow, ...] = (
    ("delivery-topic", TOPIC_POLICY, (*_TOPIC_STATEMENTS, 0, "Principal"), {"Service": "s3.amazonaws.com"}),
    ("delivery-topic", TOPIC_POLICY, (*_TOPIC_STATEMENTS, 0, "Effect"), "Deny"),
    ("delivery-topic", TOPIC_POLICY, (*_TOPIC_STATEMENTS, 1, "Action"), "sns:Subscribe"),
    ("delivery-topic", TOPIC_POLICY, ("Topics",), [{"Ref": "Another"}]),
    ("delivery-topic", BUDGET, ("NotificationsWithSubscribers",), _MAIL),
    ("delivery-key", KEY, (*_KEY_STATEMENTS, 0, "Principal"), GONE),
    ("delivery-key", KEY, (*_KEY_STATEMENTS, 1, "Action"), ["kms:Decrypt"]),
    ("delivery-key", TOPIC, ("KmsMasterKeyId",), "alias/aws/sns"),
    ("delivery-key-source", KEY, (*_KEY_STATEMENTS, 1, "Condition"), ACCOUNT),
    (
        "delivery-key-source",
        KEY,
        (*_KEY_STATEMENTS, 1, "Condition"),
        {"ArnLike": {"AWS:SourceArn": "arn:aws:events:*:*:rule/*"}},
    ),
)
