"""The CDK's own custom resources: the yard does the work of their functions, which it does not run.

To add one: a row, with what its function does on create, update and delete. The sources are the handlers of
https://github.com/aws/aws-cdk/tree/main/packages/%40aws-cdk/custom-resource-handlers/lib. One difference: for
an OpenID Connect provider without a thumbprint the function fetches the host's certificate; the yard does
not.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, changeable, find, setting, shaped
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import (
    ID,
    ResourceScope,
    has_code,
    prop,
    response,
    tolerating,
)

# Every custom resource has these properties; those of this file ignore both.
COMMON = "ServiceToken ServiceTimeout"
EMPTIES_TAG = {"Key": "aws-cdk:auto-delete-objects", "Value": "true"}


def restrict(scope: ResourceScope) -> dict[str, Any]:
    """Remove both rules, with whatever ports and owners they were written."""
    group = scope.properties["DefaultSecurityGroupId"]
    filters = [{"Name": "group-id", "Values": [group]}]
    found = scope.send("describe_security_group_rules", Filters=filters)["SecurityGroupRules"]
    for rule in found:
        is_default = (
            rule.get("ReferencedGroupInfo", {}).get("GroupId") == group or rule.get("CidrIpv4") == "0.0.0.0/0"
        )
        if is_default and rule["IpProtocol"] == "-1":
            direction = "egress" if rule["IsEgress"] else "ingress"
            named = [rule["SecurityGroupRuleId"]]
            scope.send(f"revoke_security_group_{direction}", GroupId=group, SecurityGroupRuleIds=named)
    return {}


def open_again(scope: ResourceScope) -> None:
    """Restore the group as EC2 made it; the VPC is usually deleted right after."""
    group = scope.properties["DefaultSecurityGroupId"]
    members = [{"GroupId": group, "UserId": scope.properties["Account"]}]
    # The two rules with which EC2 makes every default security group.
    rules: list[tuple[str, dict[str, Any]]] = [
        ("ingress", {"IpProtocol": "-1", "UserIdGroupPairs": members}),
        ("egress", {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}),
    ]
    for direction, rule in rules:
        with tolerating(has_code("InvalidPermission.Duplicate")):
            scope.send(f"authorize_security_group_{direction}", GroupId=group, IpPermissions=[rule])


def empty_bucket(scope: ResourceScope) -> None:
    """Empty the bucket if it still has the CDK's tag: whoever wants to keep the objects removes the tag."""
    bucket = scope.properties["BucketName"]
    if EMPTIES_TAG not in (find("get_bucket_tagging", "TagSet", Bucket=bucket)(scope) or ()):
        return
    for page in scope.context.client("s3").get_paginator("list_object_versions").paginate(Bucket=bucket):
        listed = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        if named := [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in listed]:
            scope.send("delete_objects", Bucket=bucket, Delete={"Objects": named})


def move_to_bucket(scope: ResourceScope) -> None:
    """Empty the previous bucket, which is about to be deleted."""
    empty_bucket(ResourceScope(context=scope.context, service=scope.service, properties=scope.before))


def keep_logs(scope: ResourceScope) -> dict[str, Any]:
    group, days = scope.properties["LogGroupName"], scope.properties.get("RetentionInDays")
    with tolerating(has_code("ResourceAlreadyExistsException")):
        scope.send("create_log_group", logGroupName=group)
    if days:
        scope.send("put_retention_policy", logGroupName=group, retentionInDays=int(days))
    else:
        scope.send("delete_retention_policy", logGroupName=group)
    return {}


def drop_logs(scope: ResourceScope) -> None:
    """Delete the log group if the app says so; by default it outlives its stack."""
    if scope.properties.get("RemovalPolicy") == "destroy":
        scope.send("delete_log_group", logGroupName=scope.properties["LogGroupName"])


def notify(scope: ResourceScope) -> dict[str, Any]:
    _put_notifications(scope, scope.properties["NotificationConfiguration"])
    return {}


def _put_notifications(scope: ResourceScope, wanted: Mapping[str, Any]) -> None:
    scope.send(
        "put_bucket_notification_configuration",
        Bucket=scope.properties["BucketName"],
        NotificationConfiguration=wanted,
        SkipDestinationValidation=True,
    )


def deploy_files(scope: ResourceScope) -> dict[str, Any]:
    bucket, prefix = scope.properties["DestinationBucketName"], _prefix(scope.properties)
    written = set()
    for name, content in _sources(scope):
        scope.send("put_object", Bucket=bucket, Key=prefix + name, Body=content)
        written.add(prefix + name)
    if str(scope.properties.get("Prune", "true")).lower() == "true":
        _delete_objects(scope, bucket, prefix, keep=written)
    return {}


def remove_files(scope: ResourceScope) -> None:
    if str(scope.properties.get("RetainOnDelete", "true")).lower() != "true":
        _delete_objects(scope, scope.properties["DestinationBucketName"], _prefix(scope.properties))


def _sources(scope: ResourceScope) -> Iterator[tuple[str, bytes]]:
    given = scope.properties
    extracts = str(given.get("Extract", "true")).lower() == "true"
    nothing: list[dict[str, Any]] = [{} for _ in given["SourceBucketNames"]]
    markers, configured = given.get("SourceMarkers") or nothing, given.get("SourceMarkersConfig") or nothing
    for bucket, key, marks, how in zip(
        given["SourceBucketNames"], given["SourceObjectKeys"], markers, configured, strict=True
    ):
        content = scope.send("get_object", Bucket=bucket, Key=key)["Body"].read()
        if not extracts:
            yield key, content
            continue
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in (item for item in archive.namelist() if not item.endswith("/")):
                yield name, _marked(archive.read(name), marks, how)


def _marked(content: bytes, marks: Mapping[str, Any], how: Mapping[str, Any]) -> bytes:
    """Replace the markers that the CDK leaves in files for values known only at deployment."""
    escapes = str(how.get("jsonEscape", "false")).lower() == "true"
    for marker, value in marks.items():
        text = value if isinstance(value, str) and not escapes else json.dumps(value)
        if isinstance(value, str) and escapes:
            text = text[1:-1]  # the file has quotes around the marker already
        content = content.replace(marker.encode(), text.encode())
    return content


def _prefix(properties: Mapping[str, Any]) -> str:
    prefix = str(properties.get("DestinationBucketKeyPrefix", "")).strip("/")
    return f"{prefix}/" if prefix else ""


def _delete_objects(
    scope: ResourceScope, bucket: str, prefix: str, keep: frozenset[str] | set[str] = frozenset()
) -> None:
    pages = scope.context.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        stale = [{"Key": item["Key"]} for item in page.get("Contents", ()) if item["Key"] not in keep]
        if stale:
            scope.send("delete_objects", Bucket=bucket, Delete={"Objects": stale})


def _row(service: str, **parts: Any) -> ApiResource:
    accepts = f"{COMMON} {parts.pop('accepts', '')}"
    attributes = {"Id": ID, **parts.pop("attributes", {})}
    return ApiResource(service=service, accepts=accepts, attributes=attributes, **parts)


# Properties that the yard ignores: it has no CloudFront, and writes objects without metadata.
NOT_DONE = "OutputObjectKeys RetainOnDelete SystemMetadata UserMetadata WaitForDistributionInvalidation"
DEPLOYED_FILES = (
    "DestinationBucketKeyPrefix Extract Prune SourceMarkers SourceMarkersConfig SourceObjectKeys"
    " DestinationBucketName SourceBucketNames"
)

# OpenID Connect providers.
UNKNOWN = "0" * 40  # moto requires a thumbprint


def thumbprints(scope: ResourceScope) -> list[str]:
    return sorted(scope.properties.get("ThumbprintList") or [UNKNOWN])


def change_clients(scope: ResourceScope) -> None:
    """Add the clients that are new, and remove those that are gone."""
    old, new = (set(given.get("ClientIDList") or ()) for given in (scope.before, scope.properties))
    for verb, clients in (("add", new - old), ("remove", old - new)):
        preposition = "to" if verb == "add" else "from"
        for client in sorted(clients):
            operation = f"{verb}_client_id_{preposition}_open_id_connect_provider"
            scope.send(operation, OpenIDConnectProviderArn=scope.id, ClientID=client)


PROVIDERS: Mapping[str, Provider] = {
    "Custom::VpcRestrictDefaultSG": _row(
        "ec2",
        create_call=restrict,
        identity=prop("DefaultSecurityGroupId"),
        describe=find("describe_security_groups", "SecurityGroups.0", GroupIds=[ID]),
        settings=(setting("DefaultSecurityGroupId Account", put=restrict),),
        delete_call=open_again,
    ),
    "Custom::S3AutoDeleteObjects": _row(
        "s3",
        identity=lambda scope: scope.context.default_name,
        settings=(changeable("BucketName", put=move_to_bucket),),
        delete_call=empty_bucket,
        accepts="BucketName",
    ),
    "Custom::LogRetention": _row(
        "logs",
        create_call=keep_logs,
        identity=prop("LogGroupName"),
        describe=find("describe_log_groups", "logGroups.0", logGroupNamePrefix=ID),
        attributes={"LogGroupName": prop("LogGroupName")},
        settings=(
            setting("LogGroupName RetentionInDays", put=keep_logs),
            setting("LogGroupRegion RemovalPolicy SdkRetry", put=lambda _scope: None),
        ),
        delete_call=drop_logs,
    ),
    "Custom::S3BucketNotifications": _row(
        "s3",
        create_call=notify,
        identity=lambda scope: scope.context.default_name,
        settings=(
            setting("BucketName NotificationConfiguration", put=notify),
            setting("Managed SkipDestinationValidation", put=lambda _scope: None),
        ),
        delete_call=lambda scope: _put_notifications(scope, {}),
    ),
    "Custom::CDKBucketDeployment": _row(
        "s3",
        create_call=deploy_files,
        identity=lambda scope: scope.context.default_name,
        attributes={
            "DestinationBucketArn": lambda scope: f"arn:aws:s3:::{scope.properties['DestinationBucketName']}",
            "SourceObjectKeys": prop("SourceObjectKeys"),
        },
        settings=(
            changeable(DEPLOYED_FILES, put=deploy_files),
            setting(NOT_DONE, put=lambda _scope: None),
        ),
        delete_call=remove_files,
        accepts=DEPLOYED_FILES,
    ),
    "Custom::AWSCDKOpenIdConnectProvider": ApiResource(
        service="iam",
        create_call=shaped("create_open_id_connect_provider", ThumbprintList=thumbprints),
        identity=response("OpenIDConnectProviderArn"),
        describe=find("get_open_id_connect_provider", "", OpenIDConnectProviderArn=ID),
        attributes={"Id": ID, "Thumbprints": lambda scope: json.dumps(thumbprints(scope))},
        settings=(
            changeable(
                "ThumbprintList",
                put=call(
                    "update_open_id_connect_provider_thumbprint",
                    OpenIDConnectProviderArn=ID,
                    ThumbprintList=thumbprints,
                ),
            ),
            changeable("ClientIDList", put=change_clients),
            setting("CodeHash RejectUnauthorized", put=lambda _scope: None),
        ),
        delete_call=call("delete_open_id_connect_provider", OpenIDConnectProviderArn=ID),
        accepts=COMMON,
    ),
}
