"""Rules and topics notify only whom the policies allow, and report what was not allowed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.yard.endpoint import control
from tests.yard.conftest import RunningYard
from tests.yard.services.delivery_site import ADDRESS, OF_ACCOUNT, Topic, allow, make_topic, use_key

PUBLISH = allow("events", "sns:Publish")
TRANSFORMER = {
    "InputPathsMap": {"job": "$.detail.jobName", "why": "$.detail.statusReason"},
    "InputTemplate": '"Job <job> is stuck: <why>"',
}


def put_rule(yard: RunningYard, topic: Topic, **target: Any) -> None:
    events = yard.client("events")
    events.put_rule(Name="stuck", EventPattern=json.dumps({"source": ["test"]}))
    events.put_targets(Rule="stuck", Targets=[{"Id": "1", "Arn": topic.arn, **target}])


def put_event(yard: RunningYard, source: str = "test") -> dict[str, Any]:
    detail = json.dumps({"jobName": "bert", "statusReason": 'it says "no"'})
    entry = {"Source": source, "DetailType": "Something", "Detail": detail}
    answer: dict[str, Any] = yard.client("events").put_events(Entries=[entry])
    return answer


def counted(yard: RunningYard, metric: str) -> float:
    yard_metrics = yard.client("cloudwatch").list_metrics(Namespace="AWS/Events", MetricName=metric)
    return len(yard_metrics["Metrics"])


def test_a_rule_mails_what_its_transformer_makes_of_an_event(yard: RunningYard) -> None:
    topic = make_topic(yard, policy=[PUBLISH], key=[use_key("events")])
    put_rule(yard, topic, InputTransformer=TRANSFORMER)
    put_event(yard)
    (mail,) = topic.mails()
    assert json.loads(mail["text"]) == 'Job bert is stuck: it says "no"'
    assert (counted(yard, "TriggeredRules"), counted(yard, "FailedInvocations")) == (1, 0)


@pytest.mark.parametrize(
    ("policy", "key", "problem"),
    [
        ([PUBLISH], [use_key("events", OF_ACCOUNT)], "SNS topic encryption key"),
        (
            [allow("cloudwatch", "sns:Publish")],
            None,
            "no resource-based policy allows the SNS:Publish action",
        ),
        (None, None, "no resource-based policy allows"),
    ],
    ids=["key asks for the account", "topic admits alarms only", "default policy"],
)
def test_a_rule_that_a_policy_refuses_delivers_nothing_and_counts_a_failure(
    yard: RunningYard, policy: list[dict[str, Any]] | None, key: list[dict[str, Any]] | None, problem: str
) -> None:
    topic = make_topic(yard, policy=policy, key=key)
    put_rule(yard, topic)
    put_event(yard)
    assert topic.mails() == []
    assert problem in topic.lost()[0]
    assert (counted(yard, "TriggeredRules"), counted(yard, "FailedInvocations")) == (1, 1)


def test_an_event_that_could_not_be_delivered_goes_to_the_dead_letter_queue(yard: RunningYard) -> None:
    sqs = yard.client("sqs")
    queue = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    put_rule(yard, make_topic(yard), DeadLetterConfig={"Arn": arn})
    put_event(yard)
    (letter,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
    assert json.loads(letter["Body"])["detail"]["jobName"] == "bert"
    assert "SNS:Publish" in letter["MessageAttributes"]["ERROR_MESSAGE"]["StringValue"]


def test_nobody_but_aws_puts_events_of_aws(yard: RunningYard) -> None:
    answer = put_event(yard, source="aws.batch")
    assert answer["FailedEntryCount"] == 1
    assert answer["Entries"][0]["ErrorCode"] == "NotAuthorizedForSource"


def test_a_rule_hears_of_an_alarm_that_goes_on(yard: RunningYard) -> None:
    topic = make_topic(yard, policy=[PUBLISH])
    events, watch = yard.client("events"), yard.client("cloudwatch")
    pattern = {"source": ["aws.cloudwatch"], "detail": {"state": {"value": ["ALARM"]}}}
    events.put_rule(Name="on", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="on", Targets=[{"Id": "1", "Arn": topic.arn, "InputPath": "$.detail.alarmName"}])
    watch.put_metric_alarm(
        AlarmName="cost",
        Namespace="N",
        MetricName="M",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    watch.set_alarm_state(AlarmName="cost", StateValue="ALARM", StateReason="test")
    assert [mail["text"] for mail in topic.mails()] == ['"cost"']


# An address gets a topic's messages once it has confirmed, as on AWS.


def test_an_address_gets_the_question_alone_until_it_confirms_by_the_token_of_its_mail(
    yard: RunningYard,
) -> None:
    topic, sns = make_topic(yard, confirmed=False), yard.client("sns")
    sns.publish(TopicArn=topic.arn, Message="money burns unheard")
    (asked,) = control(yard, "GET", "/mail")
    assert (asked["to"], asked["subject"]) == (ADDRESS, "AWS Notification - Subscription Confirmation")
    (listed,) = sns.list_subscriptions_by_topic(TopicArn=topic.arn)["Subscriptions"]
    assert (listed["SubscriptionArn"], listed["Endpoint"]) == ("PendingConfirmation", ADDRESS)
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
