"""Resource types of CloudWatch (alarms, dashboards, logs) and EventBridge (buses, rules)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    mirrored,
    setting,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.recorded import SchemaRecord, named
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, text

ALARM_ARN = "arn:aws:cloudwatch:{region}:{account}:alarm:{id}"
ALARM_PROPERTIES = (
    "ActionsEnabled AlarmActions AlarmDescription ComparisonOperator DatapointsToAlarm Dimensions "
    "EvaluateLowSampleCountPercentile EvaluationPeriods ExtendedStatistic InsufficientDataActions "
    "MetricName Metrics Namespace OKActions Period Statistic Threshold ThresholdMetricId "
    "TreatMissingData Unit"
)


def rewrite_filter(scope: ResourceScope) -> None:
    """Replace the metric filter; moto would keep the old one of the same name, too."""
    scope.send("delete_metric_filter", logGroupName=scope.properties["LogGroupName"], filterName=scope.id)
    shaped("put_metric_filter", filterName=ID)(scope)


def put_targets(scope: ResourceScope) -> None:
    targets = scope.properties.get("Targets") or []
    wanted_ids = {target["Id"] for target in targets}
    gone = [target["Id"] for target in scope.before.get("Targets") or [] if target["Id"] not in wanted_ids]
    place = {"Rule": scope.id.rpartition("|")[2], "EventBusName": scope.properties.get("EventBusName")}
    if gone:
        scope.send("remove_targets", **place, Ids=gone)
    if targets:
        scope.send("put_targets", **place, Targets=targets)


def delete_rule(scope: ResourceScope) -> None:
    """Delete the rule after its targets: EventBridge refuses to delete a rule with targets."""
    name, bus = scope.id.rpartition("|")[2], scope.properties.get("EventBusName")
    if targets := scope.send("list_targets_by_rule", Rule=name, EventBusName=bus)["Targets"]:
        scope.send("remove_targets", Rule=name, EventBusName=bus, Ids=[target["Id"] for target in targets])
    scope.send("delete_rule", Name=name, EventBusName=bus)


def rule_arn(scope: ResourceScope) -> str:
    place = f"arn:aws:events:{scope.context.region}:{scope.context.account}:rule"
    return f"{place}/{scope.id.replace('|', '/')}"


def put_policy(scope: ResourceScope) -> None:
    policy = scope.properties.get("Policy")
    text_of_it = json.dumps(policy) if isinstance(policy, Mapping) else policy
    if text_of_it:
        scope.send("put_permission", EventBusName=scope.id, Policy=text_of_it)
    else:
        scope.send("remove_permission", EventBusName=scope.id, RemoveAllPermissions=True)


PROVIDERS: Mapping[str, Provider] = {
    # Putting an alarm again under its name changes it.
    "AWS::CloudWatch::Alarm": ApiResource(
        service="cloudwatch",
        name=Name(property="AlarmName", limit=255),
        create_call=shaped("put_metric_alarm"),
        describe=find("describe_alarms", "MetricAlarms.0", AlarmNames=[ID]),
        attributes={"Arn": live("AlarmArn")},
        settings=(
            changeable(ALARM_PROPERTIES, put=shaped("put_metric_alarm", AlarmName=ID, Tags=None)),
            tags(ResourceARN=text(ALARM_ARN)),
        ),
        delete_call=call("delete_alarms", AlarmNames=[ID]),
        reads=mirrored(ALARM_PROPERTIES),
    ),
    # moto has no PutCompositeAlarm.
    "AWS::CloudWatch::CompositeAlarm": SchemaRecord(
        type="AWS::CloudWatch::CompositeAlarm",
        form=named("AlarmName", 255, Arn=text(ALARM_ARN)),
    ),
    "AWS::CloudWatch::Dashboard": ApiResource(
        service="cloudwatch",
        name=Name(property="DashboardName", limit=255),
        create_call=shaped("put_dashboard"),
        describe=find("get_dashboard", "", DashboardName=ID),
        settings=(
            changeable(
                "DashboardBody",
                put=call("put_dashboard", DashboardName=ID, DashboardBody=prop("DashboardBody")),
            ),
            changeable("Tags", put=lambda _scope: None),  # moto keeps no tags of dashboards
        ),
        delete_call=call("delete_dashboards", DashboardNames=[ID]),
    ),
    "AWS::Logs::LogGroup": ApiResource(
        service="logs",
        name=Name(property="LogGroupName", limit=512),
        create_call=shaped("create_log_group"),
        describe=find("describe_log_groups", "logGroups", where="logGroupName", logGroupNamePrefix=ID),
        # CloudFormation's Arn ends in :*, as policies need it; the API's logGroupArn does not.
        attributes={"Arn": text("arn:aws:logs:{region}:{account}:log-group:{id}:*")},
        settings=(
            setting(
                "RetentionInDays",
                put=call("put_retention_policy", logGroupName=ID, retentionInDays=prop("RetentionInDays")),
                remove=call("delete_retention_policy", logGroupName=ID),
            ),
            changeable(
                "KmsKeyId",
                put=call("associate_kms_key", logGroupName=ID, kmsKeyId=prop("KmsKeyId")),
                remove=call("disassociate_kms_key", logGroupName=ID),
            ),
            tags(resourceArn=text("arn:aws:logs:{region}:{account}:log-group:{id}")),
            # Only the template keeps these: the yard neither masks data nor indexes fields.
            setting("DataProtectionPolicy FieldIndexPolicies", put=lambda _scope: None),
        ),
        delete_call=call("delete_log_group", logGroupName=ID),
        reads=mirrored("RetentionInDays KmsKeyId"),
    ),
    "AWS::Logs::LogStream": ApiResource(
        service="logs",
        name=Name(property="LogStreamName", limit=512),
        create_call=shaped("create_log_stream"),
        delete_call=call("delete_log_stream", logGroupName=prop("LogGroupName"), logStreamName=ID),
    ),
    "AWS::Logs::MetricFilter": ApiResource(
        service="logs",
        name=Name(property="FilterName", limit=512),
        create_call=shaped("put_metric_filter"),
        settings=(changeable("FilterPattern MetricTransformations", put=rewrite_filter),),
        delete_call=call("delete_metric_filter", logGroupName=prop("LogGroupName"), filterName=ID),
    ),
    "AWS::Logs::ResourcePolicy": ApiResource(
        service="logs",
        create_call=shaped("put_resource_policy"),
        identity=prop("PolicyName"),
        settings=(changeable("PolicyDocument", put=shaped("put_resource_policy")),),
        delete_call=call("delete_resource_policy", policyName=ID),
    ),
    "AWS::Events::EventBus": ApiResource(
        service="events",
        create_call=shaped("create_event_bus", Tags=prop("Tags")),
        identity=prop("Name"),
        describe=find("describe_event_bus", "", Name=ID),
        attributes={"Arn": live("Arn"), "Name": live("Name")},
        settings=(
            setting("Policy", put=put_policy),
            tags(ResourceARN=text("arn:aws:events:{region}:{account}:event-bus/{id}")),
        ),
        delete_call=call("delete_event_bus", Name=ID),
        accepts="Name Tags",
    ),
    "AWS::Events::Rule": ApiResource(
        service="events",
        name=Name(property="Name", limit=64),
        create_call=shaped("put_rule"),
        identity=lambda scope: "|".join(
            part for part in (scope.properties.get("EventBusName"), scope.properties["Name"]) if part
        ),
        describe=find(
            "describe_rule",
            "",
            Name=lambda scope: scope.id.rpartition("|")[2],
            EventBusName=prop("EventBusName"),
        ),
        attributes={"Arn": live("Arn"), "RuleName": live("Name")},
        settings=(
            changeable(
                "Description EventPattern RoleArn ScheduleExpression State",
                put=shaped("put_rule", Name=lambda scope: scope.id.rpartition("|")[2], Tags=None),
            ),
            setting("Targets", put=put_targets),
            tags(ResourceARN=rule_arn),
        ),
        delete_call=delete_rule,
        reads=mirrored("Description EventPattern ScheduleExpression State"),
    ),
}
