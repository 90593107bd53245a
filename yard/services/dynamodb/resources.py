"""DynamoDB: tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, mirrored, setting, shaped
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, text
from slipway.yard.cloudformation.resources.tags import tags

ENCRYPTION_WORDS = {"SSEEnabled": "Enabled", "SSEType": "SSEType", "KMSMasterKeyId": "KMSMasterKeyId"}


def encryption(scope: ResourceScope) -> dict[str, Any] | None:
    given = scope.properties.get("SSESpecification")
    return given and {ENCRYPTION_WORDS[name]: value for name, value in given.items()}


def streams(scope: ResourceScope) -> dict[str, Any] | None:
    """A template that names a view type has thereby turned the stream on."""
    given = scope.properties.get("StreamSpecification")
    return given and {"StreamEnabled": True, "StreamViewType": given["StreamViewType"]}


def change(scope: ResourceScope) -> None:
    scope.send(
        "update_table",
        TableName=scope.id,
        AttributeDefinitions=scope.properties.get("AttributeDefinitions"),
        BillingMode=scope.properties.get("BillingMode"),
        ProvisionedThroughput=scope.properties.get("ProvisionedThroughput"),
        DeletionProtectionEnabled=scope.properties.get("DeletionProtectionEnabled"),
    )


def recover(scope: ResourceScope) -> None:
    given = scope.properties.get("PointInTimeRecoverySpecification") or {"PointInTimeRecoveryEnabled": False}
    scope.send("update_continuous_backups", TableName=scope.id, PointInTimeRecoverySpecification=given)


def expire(scope: ResourceScope) -> None:
    given = scope.properties.get("TimeToLiveSpecification")
    if given and given.get("AttributeName"):
        scope.send("update_time_to_live", TableName=scope.id, TimeToLiveSpecification=given)


TABLE = ApiResource(
    service="dynamodb",
    name=Name(property="TableName", limit=255),
    create_call=shaped(
        "create_table",
        BillingMode=prop("BillingMode", "PROVISIONED"),
        SSESpecification=encryption,
        StreamSpecification=streams,
    ),
    identity=prop("TableName"),
    describe=find("describe_table", "Table", TableName=ID),
    attributes={"Arn": live("TableArn"), "StreamArn": live("LatestStreamArn", "")},
    settings=(
        setting(
            *("AttributeDefinitions", "BillingMode", "DeletionProtectionEnabled", "ProvisionedThroughput"),
            put=change,
            on_create=False,
        ),
        setting("PointInTimeRecoverySpecification", put=recover),
        setting("TimeToLiveSpecification", put=expire),
        tags(ResourceArn=text("arn:aws:dynamodb:{region}:{account}:table/{id}")),
    ),
    delete_call=call("delete_table", TableName=ID),
    reads=mirrored("KeySchema"),
    accepts=frozenset({"SSESpecification", "StreamSpecification", "BillingMode"}),
)

PROVIDERS: Mapping[str, Provider] = {"AWS::DynamoDB::Table": TABLE}
