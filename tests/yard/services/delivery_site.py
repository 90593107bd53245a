"""Makes a topic with an e-mail subscriber, to which alarms and rules publish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipway.yard.endpoint import ACCOUNT, control
from tests.yard.conftest import RunningYard

ADDRESS = "team@example.org"
OF_ACCOUNT = {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
OWNER = {
    "Effect": "Allow",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    "Action": "kms:*",
    "Resource": "*",
}


def allow(
    service: str, actions: str | Sequence[str], condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com"},
        "Action": actions,
        "Resource": "*",
    }
    return {**statement, "Condition": condition} if condition else statement


def use_key(service: str, condition: dict[str, Any] | None = None) -> dict[str, Any]:
    return allow(service, ["kms:Decrypt", "kms:GenerateDataKey"], condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    yard: RunningYard
    arn: str

    def mails(self) -> list[dict[str, Any]]:
        """Return the mails to the subscriber, without the one that asks to confirm."""
        return [mail for mail in control(self.yard, "GET", "/mail") if "Confirmation" not in mail["subject"]]

    def lost(self) -> list[str]:
        found = control(self.yard, "GET", "/status")["undelivered"]
        assert isinstance(found, list)
        return found


def make_topic(
    yard: RunningYard,
    *,
    policy: Sequence[dict[str, Any]] | None = None,
    key: Sequence[dict[str, Any]] | None = None,
    confirmed: bool = True,
) -> Topic:
    """Make a topic; without a policy it has SNS's default, and without a key it is not encrypted."""
    sns, attributes = yard.client("sns"), {}
    if key is not None:
        document = json.dumps({"Version": "2012-10-17", "Statement": [OWNER, *key]})
        made = yard.client("kms").create_key(Policy=document)
        attributes["KmsMasterKeyId"] = made["KeyMetadata"]["Arn"]
    arn = sns.create_topic(Name="alerts", Attributes=attributes)["TopicArn"]
    if policy is not None:
        document = json.dumps({"Version": "2012-10-17", "Statement": list(policy)})
        sns.set_topic_attributes(TopicArn=arn, AttributeName="Policy", AttributeValue=document)
    sns.subscribe(TopicArn=arn, Protocol="email", Endpoint=ADDRESS)
    if confirmed:
        assert control(yard, "POST", "/confirm-mail", {"address": ADDRESS}) == 1
    return Topic(yard=yard, arn=arn)
