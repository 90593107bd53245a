"""What is logged, counted and told."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import OTHER_TAGS, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import World


def log_group(_world: World) -> Case:
    return Case(properties={"RetentionInDays": 365, "Tags": TAGS}, change={"RetentionInDays": 30})


def log_stream(world: World) -> Case:
    return Case(properties={"LogGroupName": world.log_group()})


def metric_filter(world: World) -> Case:
    transformation = {"MetricName": "errors", "MetricNamespace": "Slipway", "MetricValue": "1"}
    return Case(
        properties={
            "LogGroupName": world.log_group(),
            "FilterPattern": "ERROR",
            "MetricTransformations": [transformation],
        },
        change={"FilterPattern": "FATAL"},
    )


def logs_policy(_world: World) -> Case:
    return Case(
        properties={"PolicyName": "events", "PolicyDocument": '{"Version": "2012-10-17", "Statement": []}'},
        change={"PolicyDocument": '{"Version": "2012-10-17", "Statement": [{"Sid": "a"}]}'},
    )


def alarm(world: World) -> Case:
    return Case(
        properties={
            "AlarmDescription": "jobs stuck in RUNNABLE",
            "AlarmActions": [world.topic()],
            "ComparisonOperator": "GreaterThanThreshold",
            "Dimensions": [{"Name": "JobQueue", "Value": "dl1"}],
            "EvaluationPeriods": 3,
            "MetricName": "Runnable",
            "Namespace": "Slipway",
            "Period": 300,
            "Statistic": "Maximum",
            "Threshold": 0,
            "TreatMissingData": "notBreaching",
            "Tags": TAGS,
        },
        change={"Threshold": 1, "EvaluationPeriods": 2},
    )


def composite_alarm(world: World) -> Case:
    child = world.make("AWS::CloudWatch::Alarm", **alarm(world).properties)
    return Case(
        properties={
            "AlarmRule": f"ALARM({child.id})",
            "AlarmActions": [world.topic()],
            "ActionsEnabled": True,
        },
        change={"ActionsEnabled": False},
    )


def dashboard(_world: World) -> Case:
    return Case(
        properties={"DashboardBody": '{"widgets": []}'}, change={"DashboardBody": '{"widgets": [{}]}'}
    )


def topic(world: World) -> Case:
    return Case(
        properties={
            "DisplayName": "alerts",
            "KmsMasterKeyId": world.key().id,
            "Subscription": [{"Protocol": "email", "Endpoint": "you@example.com"}],
            "Tags": TAGS,
        },
        change={"DisplayName": "alarms", "Tags": OTHER_TAGS},
    )


def subscription(world: World) -> Case:
    return Case(
        properties={"TopicArn": world.topic(), "Protocol": "email", "Endpoint": "you@example.com"},
        change={"FilterPolicy": {"kind": ["idle"]}},
    )


def topic_policy(world: World) -> Case:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "budgets.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": world.topic(),
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return Case(
        properties={"Topics": [world.topic()], "PolicyDocument": document},
        change={"PolicyDocument": {**document, "Id": "second"}},
    )


def budget(_world: World) -> Case:
    monthly = {
        "BudgetName": "slipway-trial",
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": 5000, "Unit": "USD"},
    }
    notification = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80}
    subscribers = [{"SubscriptionType": "EMAIL", "Address": "you@example.com"}]
    return Case(
        properties={
            "Budget": monthly,
            "NotificationsWithSubscribers": [{"Notification": notification, "Subscribers": subscribers}],
        },
        change={"Budget": {**monthly, "BudgetLimit": {"Amount": 6000, "Unit": "USD"}}},
    )


def rule(world: World) -> Case:
    return Case(
        properties={
            "Description": "a queue is blocked",
            "EventPattern": {"source": ["aws.batch"], "detail-type": ["Batch Job Queue Blocked"]},
            "State": "ENABLED",
            "Targets": [{"Id": "alerts", "Arn": world.topic()}],
        },
        change={"State": "DISABLED"},
    )


CASES: Cases = {
    "AWS::Logs::LogGroup": log_group,
    "AWS::Logs::LogStream": log_stream,
    "AWS::Logs::MetricFilter": metric_filter,
    "AWS::Logs::ResourcePolicy": logs_policy,
    "AWS::CloudWatch::Alarm": alarm,
    "AWS::CloudWatch::CompositeAlarm": composite_alarm,
    "AWS::CloudWatch::Dashboard": dashboard,
    "AWS::SNS::Topic": topic,
    "AWS::SNS::Subscription": subscription,
    "AWS::SNS::TopicPolicy": topic_policy,
    "AWS::Budgets::Budget": budget,
    "AWS::Events::Rule": rule,
}
