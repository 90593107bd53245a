"""A budget of the yard counts the costs with an activated tag, and mails when a threshold is passed."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.yard.endpoint import ACCOUNT, control
from tests.yard.conftest import RunningYard
from tests.yard.services.delivery_site import ADDRESS, allow, make_topic

TAG = "slipway:cluster"
TYPE = "c6i.32xlarge"
A_MINUTE_USD = 5.44 / 60  # the least that EC2 bills


def put_budget(yard: RunningYard, *subscribers: dict[str, str], limit: float = 0.05) -> None:
    notification = {
        "NotificationType": "ACTUAL",
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": 80,
        "ThresholdType": "PERCENTAGE",
    }
    yard.client("budgets").create_budget(
        AccountId=ACCOUNT,
        Budget={
            "BudgetName": "c6i",
            "BudgetType": "COST",
            "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": str(limit), "Unit": "USD"},
            "CostFilters": {"TagKeyValue": [f"user:{TAG}$c6i"]},
        },
        NotificationsWithSubscribers=[
            {
                "Notification": notification,
                "Subscribers": list(subscribers) or [{"SubscriptionType": "EMAIL", "Address": ADDRESS}],
            }
        ],
    )


def start_node(yard: RunningYard, cluster: str = "c6i") -> None:
    ec2 = yard.client("ec2")
    known = ec2.describe_images(Owners=["self"])["Images"]
    image = (known[0] if known else ec2.register_image(Name="node", RootDeviceName="/dev/sda1"))["ImageId"]
    tags = [{"ResourceType": "instance", "Tags": [{"Key": TAG, "Value": cluster}]}]
    ec2.run_instances(ImageId=image, InstanceType=TYPE, MinCount=1, MaxCount=1, TagSpecifications=tags)


def activate(yard: RunningYard, status: str = "Active") -> list[dict[str, Any]]:
    told = [{"TagKey": TAG, "Status": status}]
    errors = yard.client("ce").update_cost_allocation_tags_status(CostAllocationTagsStatus=told)["Errors"]
    assert isinstance(errors, list)
    return errors


def tag_status(yard: RunningYard) -> list[str]:
    found = yard.client("ce").list_cost_allocation_tags(TagKeys=[TAG], Type="UserDefined")
    return [tag["Status"] for tag in found["CostAllocationTags"]]


def spent(yard: RunningYard) -> float:
    budget = yard.client("budgets").describe_budget(AccountId=ACCOUNT, BudgetName="c6i")["Budget"]
    return float(budget["CalculatedSpend"]["ActualSpend"]["Amount"])


def mails(yard: RunningYard) -> list[str]:
    return [
        mail["subject"] for mail in control(yard, "GET", "/mail") if "Confirmation" not in mail["subject"]
    ]


def test_a_budget_counts_nothing_until_its_tag_is_activated(yard: RunningYard) -> None:
    put_budget(yard)
    start_node(yard)
    assert tag_status(yard) == ["Inactive"]
    assert (spent(yard), mails(yard)) == (0, [])


def test_a_tag_counts_from_its_activation_on_and_not_what_was_before(yard: RunningYard) -> None:
    put_budget(yard, limit=1000)
    start_node(yard)
    assert activate(yard) == []
    assert tag_status(yard) == ["Active"]
    before = spent(yard)
    assert before <= A_MINUTE_USD
    start_node(yard)
    start_node(yard, cluster="dl1")
    assert before + 0.99 * A_MINUTE_USD <= spent(yard) < before + 1.99 * A_MINUTE_USD
    activate(yard, "Inactive")
    assert spent(yard) == 0


def test_a_budget_mails_once_when_its_threshold_is_passed(yard: RunningYard) -> None:
    put_budget(yard)
    start_node(yard)
    activate(yard)
    start_node(yard)
    assert spent(yard) > 0.04
    assert spent(yard) > 0.04
    assert mails(yard) == ["AWS Budgets: c6i has exceeded your alert threshold"]


@pytest.mark.parametrize(
    ("policy", "allows"),
    [(None, False), ([allow("budgets", "sns:Publish")], True)],
    ids=["the default policy", "a policy that names it"],
)
def test_a_budget_publishes_to_a_topic_that_allows_it_and_to_no_other(
    yard: RunningYard, policy: list[dict[str, Any]] | None, allows: bool
) -> None:
    topic = make_topic(yard, policy=policy)
    start_node(yard)
    activate(yard)
    put_budget(yard, {"SubscriptionType": "SNS", "Address": topic.arn}, limit=0.0001)
    start_node(yard)
    assert spent(yard) > 0
    assert len(mails(yard)) == allows
    assert ["SNS:Publish" in words for words in topic.lost()] == ([] if allows else [True])


def test_a_tag_that_nothing_carries_cannot_be_activated(yard: RunningYard) -> None:
    (error,) = activate(yard)
    assert (error["TagKey"], error["Code"]) == (TAG, "TagKeysNotFoundException")
