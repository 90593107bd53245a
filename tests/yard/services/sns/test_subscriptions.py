"""An address hears of a topic when it has confirmed, as on AWS."""

from __future__ import annotations

import re

import pytest
from botocore.exceptions import ClientError

from slipway.yard.endpoint import control
from tests.yard.conftest import RunningYard
from tests.yard.services.delivery_site import ADDRESS, make_topic


def test_an_address_that_has_not_confirmed_gets_nothing_but_the_question(yard: RunningYard) -> None:
    topic, sns = make_topic(yard, confirmed=False), yard.client("sns")
    sns.publish(TopicArn=topic.arn, Message="money burns")
    (asked,) = control(yard, "GET", "/mail")
    assert (asked["to"], asked["subject"]) == (ADDRESS, "AWS Notification - Subscription Confirmation")
    (listed,) = sns.list_subscriptions_by_topic(TopicArn=topic.arn)["Subscriptions"]
    assert (listed["SubscriptionArn"], listed["Endpoint"]) == ("PendingConfirmation", ADDRESS)


def test_an_address_that_confirms_by_the_token_of_its_mail_gets_what_is_published(yard: RunningYard) -> None:
    topic, sns = make_topic(yard, confirmed=False), yard.client("sns")
    (asked,) = control(yard, "GET", "/mail")
    token = re.search(r"--token (\w+)", asked["text"])
    assert token
    confirmed = sns.confirm_subscription(TopicArn=topic.arn, Token=token[1])["SubscriptionArn"]
    sns.publish(TopicArn=topic.arn, Subject="News", Message="money burns")
    (mail,) = topic.mails()
    assert (mail["to"], mail["subject"], mail["text"]) == (ADDRESS, "News", "money burns")
    assert sns.list_subscriptions()["Subscriptions"][0]["SubscriptionArn"] == confirmed
    with pytest.raises(ClientError, match="Invalid token"):
        sns.confirm_subscription(TopicArn=topic.arn, Token=token[1])


def test_a_topic_that_is_deleted_takes_its_subscriptions_along(yard: RunningYard) -> None:
    topic, sns = make_topic(yard), yard.client("sns")
    sns.delete_topic(TopicArn=topic.arn)
    assert sns.list_subscriptions()["Subscriptions"] == []
    with pytest.raises(ClientError, match="NotFound"):
        sns.subscribe(TopicArn=topic.arn, Protocol="email", Endpoint=ADDRESS)
