"""CloudWatch: alarms and dashboards."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    mirrored,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.recorded import SchemaRecord, named
from slipway.yard.cloudformation.resources.scope import ID, live, prop, text

ALARM_ARN = "arn:aws:cloudwatch:{region}:{account}:alarm:{id}"
ALARM_PROPERTIES = (
    "ActionsEnabled AlarmActions AlarmDescription ComparisonOperator DatapointsToAlarm Dimensions "
    "EvaluateLowSampleCountPercentile EvaluationPeriods ExtendedStatistic InsufficientDataActions "
    "MetricName Metrics Namespace OKActions Period Statistic Threshold ThresholdMetricId "
    "TreatMissingData Unit"
)


PROVIDERS: Mapping[str, Provider] = {
    # Writing an alarm again under its name changes it.
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
            changeable("Tags", put=lambda _scope: None),  # moto keeps none of a dashboard
        ),
        delete_call=call("delete_dashboards", DashboardNames=[ID]),
    ),
}
