"""The claim that an alarm reaches a person: a mail to the address that was given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.claims import Proof, judged, not_tried
from scripts.real_account.clusters import MPI

_CONFIRM_MINUTES = 15
_DELIVER_MINUTES = 15


def reaches_the_address(account: Account) -> Proof:
    alarm, topic = _alarm(account)
    if not alarm:
        return not_tried(f"{MPI.name} has no alarm that mails anybody")
    if not _confirmed(account, topic):
        return not_tried(
            f"nobody confirmed the subscription of {account.email} within {_CONFIRM_MINUTES} minutes"
        )
    account.order(
        "cloudwatch", "SetAlarmState", AlarmName=alarm, StateValue="ALARM", StateReason="slipway acceptance"
    )
    try:
        account.wait_until(
            "SNS delivers the mail", lambda: _delivered(account, topic, alarm), _DELIVER_MINUTES
        )
    except CommandFailed:
        return judged(False, f"{alarm} was set to ALARM, and no mail to {account.email} was delivered")
    return judged(True, f"{alarm} was set to ALARM, and its mail to {account.email} was delivered")


def _alarm(account: Account) -> tuple[str, str]:
    """Find an alarm of the cluster that tells a topic, and the topic."""
    for alarm in account.ask("cloudwatch", "DescribeAlarms")["MetricAlarms"]:
        topics = [action for action in alarm["AlarmActions"] if action.startswith("arn:aws:sns:")]
        if topics and MPI.name in f"{alarm['AlarmName']} {topics[0]}":
            return str(alarm["AlarmName"]), topics[0]
    return "", ""


def _confirmed(account: Account, topic: str) -> bool:
    """Wait for the click in the mail that asks for it; in a yard, click."""
    if account.is_yard:
        account.run("slipway", "yard", "mail", "--confirm", account.email)
    else:
        print(
            f"confirm now: the mail 'AWS Notification - Subscription Confirmation' to {account.email}",
            flush=True,
        )
    try:
        account.wait_until(
            "the subscription is confirmed", lambda: _is_confirmed(account, topic), _CONFIRM_MINUTES
        )
    except CommandFailed:
        return False
    return True


def _is_confirmed(account: Account, topic: str) -> bool:
    answer = account.ask("sns", "ListSubscriptionsByTopic", TopicArn=topic)
    return any(
        subscription["Endpoint"] == account.email and subscription["SubscriptionArn"].startswith("arn:")
        for subscription in answer["Subscriptions"]
    )


def _delivered(account: Account, topic: str, alarm: str) -> bool:
    if account.is_yard:
        mails = account.data("slipway", "yard", "mail")
        return any(
            account.email in str(mail["to"]) and alarm in f"{mail['subject']} {mail['text']}"
            for mail in mails
        )
    now = datetime.now(UTC)
    answer = account.ask(
        "cloudwatch",
        "GetMetricStatistics",
        Namespace="AWS/SNS",
        MetricName="NumberOfNotificationsDelivered",
        Dimensions=[{"Name": "TopicName", "Value": topic.rpartition(":")[2]}],
        StartTime=now - timedelta(minutes=_DELIVER_MINUTES),
        EndTime=now,
        Period=60,
        Statistics=["Sum"],
    )
    return any(point["Sum"] > 0 for point in answer["Datapoints"])
