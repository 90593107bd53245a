"""Alarms of the yard change state by their metrics, and notify only whom the policies allow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.yard.services.cloudwatch.evaluation import (
    ALARM,
    NO_DATA,
    OK,
    AlarmRule,
    UnknownExpression,
    compute,
    evaluate,
)
from tests.infra.synthesis import mpi_templates_of, of_type
from tests.yard.conftest import RunningYard
from tests.yard.services.delivery_site import OF_ACCOUNT, Topic, allow, make_topic, use_key

PUBLISH = allow("cloudwatch", "sns:Publish", OF_ACCOUNT)
EVENTS_ONLY = allow("events", "sns:Publish")


def put_alarm(yard: RunningYard, actions: Sequence[str], **changes: Any) -> None:
    given = {
        "AlarmName": "idle",
        "Namespace": "Slipway",
        "MetricName": "IdleNodes",
        "Statistic": "Sum",
        "Period": 300,
        "EvaluationPeriods": 2,
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "notBreaching",
        **changes,
    }
    yard.client("cloudwatch").put_metric_alarm(AlarmActions=list(actions), **given)


def report(yard: RunningYard, *minutes_ago: float) -> None:
    now = datetime.now(UTC)
    for minutes in minutes_ago:
        datum = {"MetricName": "IdleNodes", "Value": 1, "Timestamp": now - timedelta(minutes=minutes)}
        yard.client("cloudwatch").put_metric_data(Namespace="Slipway", MetricData=[datum])


def state(yard: RunningYard) -> str:
    (alarm,) = yard.client("cloudwatch").describe_alarms(AlarmNames=["idle"])["MetricAlarms"]
    return str(alarm["StateValue"])


def actions_taken(yard: RunningYard) -> list[str]:
    found = yard.client("cloudwatch").describe_alarm_history(AlarmName="idle", HistoryItemType="Action")
    return [item["HistorySummary"] for item in found["AlarmHistoryItems"]]


def raised(yard: RunningYard, topic: Topic) -> None:
    put_alarm(yard, [topic.arn])
    yard.client("cloudwatch").set_alarm_state(AlarmName="idle", StateValue="ALARM", StateReason="test")


def test_a_new_alarm_has_no_data_and_one_that_is_changed_keeps_its_state(yard: RunningYard) -> None:
    put_alarm(yard, [], TreatMissingData="missing")
    assert state(yard) == "INSUFFICIENT_DATA"
    report(yard, 1, 6)
    assert state(yard) == "ALARM"
    put_alarm(yard, [], TreatMissingData="ignore", Period=60)
    assert state(yard) == "ALARM"


def test_an_alarm_goes_on_with_its_metric_and_off_again(yard: RunningYard) -> None:
    put_alarm(yard, [])
    report(yard, 1)
    assert state(yard) == "OK", "one period of two"
    report(yard, 6)
    assert state(yard) == "ALARM"
    put_alarm(yard, [], Threshold=3)
    assert state(yard) == "OK"


def test_an_alarm_of_a_bare_metric_looks_further_back_while_data_is_missing(yard: RunningYard) -> None:
    """So nodes that have stopped keep it on, which a period filled with zero ends."""
    put_alarm(yard, [])
    report(yard, 11, 16)
    assert state(yard) == "ALARM"
    metric = {"Namespace": "Slipway", "MetricName": "IdleNodes"}
    queries = [
        {
            "Id": "reports",
            "MetricStat": {"Metric": metric, "Period": 300, "Stat": "Minimum"},
            "ReturnData": False,
        },
        {"Id": "idle", "Expression": "FILL(reports, 0)", "ReturnData": True},
    ]
    yard.client("cloudwatch").put_metric_alarm(
        AlarmName="idle",
        Metrics=queries,
        EvaluationPeriods=2,
        Threshold=1,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        TreatMissingData="notBreaching",
    )
    assert state(yard) == "OK"


def test_an_alarm_mails_through_a_topic_whose_policy_and_key_allow_it(yard: RunningYard) -> None:
    topic = make_topic(yard, policy=[PUBLISH], key=[use_key("cloudwatch", OF_ACCOUNT)])
    raised(yard, topic)
    (mail,) = topic.mails()
    assert mail["subject"].startswith('ALARM: "idle" in us-east-1')
    assert json.loads(mail["text"])["NewStateValue"] == "ALARM"
    assert actions_taken(yard) == [f"Successfully executed action {topic.arn}"]
    assert topic.lost() == []


@pytest.mark.parametrize(
    ("policy", "key", "problem"),
    [
        ([EVENTS_ONLY], None, "because no resource-based policy allows the SNS:Publish action"),
        (
            [PUBLISH],
            [use_key("events")],
            "does not have authorization to access the SNS topic encryption key",
        ),
        ([PUBLISH], [allow("cloudwatch", "kms:Decrypt")], "does not have authorization to access"),
    ],
)
def test_an_alarm_that_a_policy_refuses_mails_nothing_and_its_history_says_why(
    yard: RunningYard, policy: list[dict[str, Any]], key: list[dict[str, Any]] | None, problem: str
) -> None:
    topic = make_topic(yard, policy=policy, key=key)
    raised(yard, topic)
    assert topic.mails() == []
    (taken,) = actions_taken(yard)
    assert taken.startswith(f"Failed to execute action {topic.arn}. Received error: ")
    assert problem in taken
    assert problem in topic.lost()[0]


def test_an_alarm_is_told_of_once_and_not_at_every_look_or_without_actions_enabled(yard: RunningYard) -> None:
    topic = make_topic(yard)  # its default policy takes alarms of its account
    put_alarm(yard, [topic.arn], ActionsEnabled=False)
    report(yard, 1, 6)
    assert (state(yard), topic.mails()) == ("ALARM", [])
    yard.client("cloudwatch").delete_alarms(AlarmNames=["idle"])
    put_alarm(yard, [topic.arn])
    report(yard, 1, 6)
    report(yard, 2, 7)
    assert len(topic.mails()) == 1


def make_group(yard: RunningYard) -> str:
    """Make a group of two nodes, one protected as by a job; return the ARN of its policy for zero nodes."""
    ec2, scaling = yard.client("ec2"), yard.client("autoscaling")
    image = ec2.register_image(Name="node", RootDeviceName="/dev/sda1")["ImageId"]
    data = {"ImageId": image, "InstanceType": "c6i.32xlarge"}
    template = ec2.create_launch_template(LaunchTemplateName="node", LaunchTemplateData=data)
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="c6i",
        MinSize=0,
        MaxSize=2,
        DesiredCapacity=2,
        AvailabilityZones=["us-east-1a"],
        LaunchTemplate={
            "LaunchTemplateId": template["LaunchTemplate"]["LaunchTemplateId"],
            "Version": "1",
        },
    )
    scaling.set_instance_protection(
        AutoScalingGroupName="c6i", InstanceIds=nodes(yard)[:1], ProtectedFromScaleIn=True
    )
    scaling.put_scaling_policy(
        AutoScalingGroupName="c6i",
        PolicyName="none",
        PolicyType="SimpleScaling",
        AdjustmentType="ExactCapacity",
        ScalingAdjustment=0,
        Cooldown=300,
    )
    return str(scaling.describe_policies()["ScalingPolicies"][0]["PolicyARN"])


def nodes(yard: RunningYard) -> list[str]:
    (group,) = yard.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return [instance["InstanceId"] for instance in group["Instances"]]


def test_an_alarm_stops_the_nodes_of_a_group_but_for_those_of_a_job(yard: RunningYard) -> None:
    policy = make_group(yard)
    protected = nodes(yard)[0]
    put_alarm(yard, [policy])
    report(yard, 1, 6)
    assert nodes(yard) == [protected]
    assert actions_taken(yard) == [f"Successfully executed action {policy}"]


def test_nodes_that_have_run_for_hours_stop_whatever_they_report(yard: RunningYard) -> None:
    """The alarm is that of c6i's template, for fewer periods; here anybody may write this metric."""
    policy, topic = make_group(yard), make_topic(yard)
    alarms = of_type(mpi_templates_of().compute, "AWS::CloudWatch::Alarm")
    (deployed,) = [alarm for alarm in alarms.values() if alarm.get("Namespace") == "AWS/AutoScaling"]
    dimensions = [{"Name": "AutoScalingGroupName", "Value": "c6i"}]
    shorter = {**deployed, "AlarmActions": [policy, topic.arn], "EvaluationPeriods": 2}
    watch = yard.client("cloudwatch")
    watch.put_metric_alarm(**{**shorter, "Dimensions": dimensions})
    for minutes in (1, 6):
        at = datetime.now(UTC) - timedelta(minutes=minutes)
        datum = {"MetricName": deployed["MetricName"], "Value": 2, "Dimensions": dimensions, "Timestamp": at}
        watch.put_metric_data(Namespace="AWS/AutoScaling", MetricData=[datum])
    assert len(nodes(yard)) == 1
    assert topic.mails()[0]["subject"].startswith('ALARM: "c6i-up-for-hours"')


# The state of an alarm for datapoints with gaps, from the tables of CloudWatch's user guide.
KEPT = None
TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")


# "0" does not breach, "X" does, "-" is missing; the oldest first. Then the state for each treatment.
@pytest.mark.parametrize(
    ("datapoints", "states"),
    [
        ("0 - X - X", (OK, OK, OK, OK)),
        ("0 - - - -", (OK, OK, OK, OK)),
        ("- - - - -", (NO_DATA, KEPT, ALARM, OK)),
        ("0 X X - X", (ALARM, ALARM, ALARM, ALARM)),
        ("- - X - -", (ALARM, KEPT, ALARM, OK)),
    ],
)
def test_gaps_are_treated_as_the_alarm_says(datapoints: str, states: tuple[str | None, ...]) -> None:
    values = [{"0": 0.0, "X": 1.0, "-": None}[mark] for mark in datapoints.split()]
    rule = AlarmRule(
        periods=3, datapoints=3, threshold=1, comparison="GreaterThanOrEqualToThreshold", missing=""
    )
    found = tuple(evaluate(replace(rule, missing=missing), values) for missing in TREATMENTS)
    assert found == states


def test_some_of_the_periods_are_enough_where_the_alarm_says_so() -> None:
    two_of_three = AlarmRule(
        periods=3, datapoints=2, threshold=1, comparison="GreaterThanThreshold", missing="notBreaching"
    )
    assert evaluate(two_of_three, [2, 0, 2]) == ALARM
    assert evaluate(two_of_three, [2, 0, 1]) == OK


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("FILL(m, 0)", [1, 0, 3]),
        ("IF(FILL(m, 0) < n, 1, 0)", [1, 1, 0]),
        ("m * 2 + n", [4, None, 8]),
        ("FILL(nothing, 0)", [None, None, None]),
    ],
)
def test_metric_math_is_computed_period_by_period(expression: str, expected: list[float | None]) -> None:
    series: dict[str, list[float | None]] = {
        "m": [1.0, None, 3.0],
        "n": [2.0, 2.0, 2.0],
        "nothing": [None, None, None],
    }
    assert compute(expression, series, 3) == expected


@pytest.mark.parametrize("expression", ["ANOMALY_DETECTION_BAND(m)", "__import__('os')", "m.real", "("])
def test_an_expression_that_is_not_known_is_not_computed(expression: str) -> None:
    with pytest.raises(UnknownExpression):
        compute(expression, {"m": [1.0]}, 1)
