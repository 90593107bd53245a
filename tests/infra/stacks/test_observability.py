"""A cluster's owner hears of stuck jobs, idle nodes and money spent."""

from __future__ import annotations

from slipway.infra.patterns.observability.alarms import REPORT_EVERY_MINUTES
from tests.infra.patterns.nodes.test_user_data import told_to_node
from tests.infra.synthesis import OTHER, Properties, as_text, of_type, only, templates_of


def alarm(beginning: str) -> Properties:
    alarms = of_type(templates_of().observability, "AWS::CloudWatch::Alarm")
    (found,) = [each for name, each in alarms.items() if name.startswith(beginning)]
    return found


def test_a_job_that_blocks_the_queue_of_this_cluster_is_mailed_with_its_reason() -> None:
    rule = only(templates_of().observability, "AWS::Events::Rule")
    assert rule["EventPattern"]["detail-type"] == ["Batch Job Queue Blocked"]
    (queue,) = rule["EventPattern"]["detail"]["jobQueue"]
    assert as_text(queue) == "arn:aws:batch:us-east-1:<…>:job-queue/dl1"
    (target,) = rule["Targets"]
    (topic,) = of_type(templates_of().observability, "AWS::SNS::Topic")
    assert target["Arn"] == {"Ref": topic}
    assert "$.detail.statusReason" in target["InputTransformer"]["InputPathsMap"].values()


def test_the_queue_that_is_watched_is_the_queue_that_jobs_enter() -> None:
    assert only(templates_of().compute, "AWS::Batch::JobQueue")["JobQueueName"] == "dl1"


def test_one_stuck_job_raises_the_alarm() -> None:
    found = alarm("AlarmsStuckJobs")
    (rule,) = of_type(templates_of().observability, "AWS::Events::Rule")
    assert found["Dimensions"] == [{"Name": "RuleName", "Value": {"Ref": rule}}]
    assert (found["Threshold"], found["EvaluationPeriods"]) == (1, 1)


def test_half_an_hour_of_idle_nodes_raises_the_alarm() -> None:
    found = alarm("AlarmsIdleNodes")
    assert found["Dimensions"] == [{"Name": "Cluster", "Value": "dl1"}]
    assert found["Period"] * found["EvaluationPeriods"] == 30 * 60
    assert found["TreatMissingData"] == "notBreaching"


def test_nodes_that_are_late_to_join_raise_the_alarm_before_they_end_themselves() -> None:
    found = alarm("AlarmsNodesNotJoined")
    data = only(templates_of().compute, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    join = told_to_node(as_text(data["UserData"]))["join"]
    assert found["MetricName"] == join["metric"]
    assert found["Dimensions"] == [{"Name": "Cluster", "Value": "dl1"}]
    booting_seconds = 5 * 60
    assert booting_seconds + found["Period"] * found["EvaluationPeriods"] < join["within_minutes"] * 60


def test_a_day_of_nodes_without_a_pause_raises_the_alarm() -> None:
    found = alarm("AlarmsNodesForADay")
    assert (found["Statistic"], found["Threshold"]) == ("SampleCount", 1)
    assert found["Period"] * found["EvaluationPeriods"] == 24 * 3600


def test_nodes_report_to_the_metric_that_the_alarm_reads() -> None:
    found = alarm("AlarmsIdleNodes")
    data = only(templates_of().compute, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    report = told_to_node(as_text(data["UserData"]))["idle_report"]
    assert (report["namespace"], report["metric"]) == (found["Namespace"], found["MetricName"])
    assert report["dimension"] == found["Dimensions"][0]["Name"]
    assert found["Period"] == REPORT_EVERY_MINUTES * 60


def test_alarms_reach_the_declared_address_through_an_encrypted_topic() -> None:
    template = templates_of().observability
    (topic,) = of_type(template, "AWS::SNS::Topic")
    assert "KmsMasterKeyId" in only(template, "AWS::SNS::Topic")
    subscription = only(template, "AWS::SNS::Subscription")
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "team@example.org")
    for each in of_type(template, "AWS::CloudWatch::Alarm").values():
        assert each["AlarmActions"] == [{"Ref": topic}]


def test_alarms_and_events_may_publish_to_the_topic_and_use_its_key() -> None:
    """A topic's own policy replaces the default; EventBridge does not tell KMS where a request comes from."""
    topic = only(templates_of().observability, "AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    key = only(templates_of().network, "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    account = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    alarms, events = "cloudwatch.amazonaws.com", "events.amazonaws.com"
    assert _allowed(topic, alarms) == (["sns:Publish"], account)
    assert _allowed(topic, events) == (["sns:Publish"], None)
    assert _allowed(key, alarms) == (["kms:Decrypt", "kms:GenerateDataKey"], account)
    assert _allowed(key, events) == (["kms:Decrypt", "kms:GenerateDataKey"], None)


def _allowed(statements: list[Properties], service: str) -> tuple[list[str], Properties | None]:
    """Return the actions that the one statement for a service allows, and its condition."""
    (found,) = [statement for statement in statements if statement["Principal"] == {"Service": service}]
    assert found["Effect"] == "Allow"
    actions = found["Action"]
    return ([actions] if isinstance(actions, str) else actions), found.get("Condition")


def test_the_budget_counts_this_cluster_and_mails_before_it_is_spent() -> None:
    budget = only(templates_of(**OTHER).observability, "AWS::Budgets::Budget")
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 700, "Unit": "USD"}
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:slipway:cluster$dl1"]}
    notifications = {
        (subscriber["Notification"]["NotificationType"], subscriber["Notification"]["Threshold"])
        for subscriber in budget["NotificationsWithSubscribers"]
    }
    assert notifications == {("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)}


def test_what_costs_most_carries_the_tag_that_the_budget_counts() -> None:
    template = templates_of().compute
    pool = only(template, "AWS::Batch::ComputeEnvironment")["ComputeResources"]
    assert pool["Tags"]["slipway:cluster"] == "dl1"
    (volumes,) = only(template, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["TagSpecifications"]
    assert {"Key": "slipway:cluster", "Value": "dl1"} in volumes["Tags"]


def test_the_dashboard_shows_alarms_and_the_output_of_jobs() -> None:
    body = as_text(only(templates_of().observability, "AWS::CloudWatch::Dashboard")["DashboardBody"])
    for expected in ("IdleNodes", "TriggeredRules", "@message"):
        assert expected in body


def test_logs_end_when_declared_and_are_encrypted() -> None:
    groups = of_type(templates_of(**OTHER).observability, "AWS::Logs::LogGroup").values()
    assert {group["RetentionInDays"] for group in groups} == {30}
    assert all("KmsKeyId" in group for group in groups)
