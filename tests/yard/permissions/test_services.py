"""Services that deliver in their own name, against policies that stand in a yard."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.permissions.roles import judge_service

REGION = "us-east-1"


@pytest.fixture(autouse=True)
def moto() -> Iterator[None]:
    from moto import mock_aws

    with mock_aws():
        yield


def topic(*statements: dict[str, object]) -> str:
    from moto.sns.models import sns_backends

    made = sns_backends[ACCOUNT][REGION].create_topic("alarms")
    if statements:
        made.policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    return str(made.arn)


def allow(service: str, **condition: object) -> dict[str, object]:
    stated = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sns:Publish", "Resource": "*"}
    return {**stated, **({"Condition": condition} if condition else {})}


def test_an_alarm_publishes_through_a_topics_default_policy() -> None:
    keys = {"aws:SourceOwner": ACCOUNT}
    assert judge_service("cloudwatch.amazonaws.com", "SNS:Publish", topic(), keys).is_allowed


def test_a_policy_of_ones_own_replaces_the_default_one() -> None:
    keys = {"aws:SourceOwner": ACCOUNT}
    arn = topic(allow("events.amazonaws.com"))
    assert judge_service("events.amazonaws.com", "sns:Publish", arn).is_allowed
    assert not judge_service("cloudwatch.amazonaws.com", "sns:Publish", arn, keys).is_allowed


def test_a_service_that_does_not_say_whom_it_acts_for_fails_the_condition() -> None:
    from moto.kms.models import kms_backends

    own = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:SourceAccount": ACCOUNT}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [own]})
    key = kms_backends[ACCOUNT][REGION].create_key(document, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "", None)
    told = {"aws:SourceAccount": ACCOUNT}
    assert judge_service("events.amazonaws.com", "kms:GenerateDataKey", key.arn, told).is_allowed
    assert not judge_service("events.amazonaws.com", "kms:GenerateDataKey", key.arn).is_allowed
