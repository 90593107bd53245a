"""CloudWatch Logs: groups, streams, metric filters, resource policies."""

from __future__ import annotations

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
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, prop, text


def rewrite_filter(scope: ResourceScope) -> None:
    """moto keeps the old filter of the same name next to the new one."""
    scope.send("delete_metric_filter", logGroupName=scope.properties["LogGroupName"], filterName=scope.id)
    shaped("put_metric_filter", filterName=ID)(scope)


PROVIDERS: Mapping[str, Provider] = {
    "AWS::Logs::LogGroup": ApiResource(
        service="logs",
        name=Name(property="LogGroupName", limit=512),
        create_call=shaped("create_log_group"),
        describe=find("describe_log_groups", "logGroups", where="logGroupName", logGroupNamePrefix=ID),
        # CloudFormation's Arn ends in :*, as a policy wants it; the API's logGroupArn does not.
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
            # Kept in the template alone: nothing here masks data, or indexes fields.
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
}
