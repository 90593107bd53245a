"""S3: buckets and their policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jobs.yard.errors import ApiError
from jobs.yard.resources.api import ApiResource, Setting, call, find, setting
from jobs.yard.resources.names import Name
from jobs.yard.resources.provider import Context, Fidelity, Properties, Provider, Resource
from jobs.yard.resources.recorded import Record, forget, keep, recall
from jobs.yard.resources.scope import ID, Expression, Scope, is_gone, pick, prop, text
from jobs.yard.resources.shapes import like
from jobs.yard.resources.tags import as_map

POLICY_TYPE = "AWS::S3::BucketPolicy"


def create_bucket(scope: Scope) -> dict[str, Any]:
    region = scope.context.region
    # S3 itself: us-east-1 is the one region that must not be named.
    constraint = None if region == "us-east-1" else {"LocationConstraint": region}
    return scope.send(
        "create_bucket",
        Bucket=scope.properties["BucketName"],
        CreateBucketConfiguration=constraint,
        ObjectLockEnabledForBucket=scope.properties.get("ObjectLockEnabled"),
    )


def lifecycle_rules(scope: Scope) -> dict[str, Any]:
    return {"Rules": [lifecycle_rule(rule) for rule in scope.properties["LifecycleConfiguration"]["Rules"]]}


def lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """CloudFormation flattens what S3's own request nests."""
    expiration = {
        "Days": rule.get("ExpirationInDays"),
        "Date": rule.get("ExpirationDate"),
        "ExpiredObjectDeleteMarker": rule.get("ExpiredObjectDeleteMarker"),
    }
    noncurrent_days = rule.get("NoncurrentVersionExpirationInDays")
    nested = {
        "ID": rule.get("Id"),
        "Status": rule["Status"],
        "Filter": lifecycle_filter(rule),
        "Expiration": _present(expiration),
        "Transitions": _transitions(rule, "Transition", days="Days"),
        "NoncurrentVersionTransitions": _transitions(
            rule, "NoncurrentVersionTransition", days="NoncurrentDays"
        ),
        "NoncurrentVersionExpiration": rule.get("NoncurrentVersionExpiration")
        or _present({"NoncurrentDays": noncurrent_days}),
        "AbortIncompleteMultipartUpload": rule.get("AbortIncompleteMultipartUpload"),
    }
    return {name: value for name, value in nested.items() if value}


def lifecycle_filter(rule: Mapping[str, Any]) -> dict[str, Any]:
    """S3 takes one condition as it is and several under And."""
    conditions = _present(
        {name: rule.get(name) for name in ("Prefix", "ObjectSizeGreaterThan", "ObjectSizeLessThan")}
    )
    tags = [dict(tag) for tag in rule.get("TagFilters") or []]
    if len(conditions) + len(tags) > 1:
        return {"And": {**conditions, **({"Tags": tags} if tags else {})}}
    return conditions or ({"Tag": tags[0]} if tags else {"Prefix": ""})


def logging_status(scope: Scope) -> dict[str, Any]:
    given = scope.properties.get("LoggingConfiguration")
    if not given:
        return {}
    target = given.get("DestinationBucketName", scope.id)
    return {"LoggingEnabled": {"TargetBucket": target, "TargetPrefix": given.get("LogFilePrefix", "")}}


def notifications(scope: Scope) -> dict[str, Any]:
    given = dict(scope.properties.get("NotificationConfiguration") or {})
    bridge = given.get("EventBridgeConfiguration", {}).get("EventBridgeEnabled")
    return {
        "EventBridgeConfiguration": {} if bridge else None,
        "TopicConfigurations": [
            {"TopicArn": item["Topic"], "Events": [item["Event"]]}
            for item in given.get("TopicConfigurations", [])
        ],
    }


def put_tags(scope: Scope) -> None:
    tags = [{"Key": key, "Value": value} for key, value in as_map(scope.properties, "Tags").items()]
    if tags:
        scope.send("put_bucket_tagging", Bucket=scope.id, Tagging={"TagSet": tags})
    else:
        scope.send("delete_bucket_tagging", Bucket=scope.id)


def put_versioning(scope: Scope) -> None:
    """A bucket that was versioned once can only be suspended."""
    status = scope.properties.get("VersioningConfiguration", {}).get("Status", "Suspended")
    scope.send("put_bucket_versioning", Bucket=scope.id, VersioningConfiguration={"Status": status})


def put_acl(scope: Scope) -> None:
    """S3's request writes BucketOwnerFullControl as bucket-owner-full-control."""
    words = re.findall(r"[A-Z][a-z]*", scope.properties.get("AccessControl", "Private"))
    scope.send("put_bucket_acl", Bucket=scope.id, ACL="-".join(words).lower())


def bucket_setting(name: str, put: str, remove: str, **parameters: Any) -> Setting:
    return setting(name, put=call(put, Bucket=ID, **parameters), remove=call(remove, Bucket=ID))


def read(operation: str, name: str, path: str) -> Expression:
    def live(scope: Scope) -> Any:
        found = pick(scope.send(operation, Bucket=scope.id), path)
        return None if found is None else like(scope.properties[name], found)

    return live


def absent_when_refused(expression: Expression, code: str) -> Expression:
    """S3 answers what is not configured with an error of its own."""

    def live(scope: Scope) -> Any:
        try:
            return expression(scope)
        except ApiError as error:
            if is_gone(error) or error.code == code:
                return None
            raise

    return live


def encryption_rules(scope: Scope) -> dict[str, Any]:
    listed = scope.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    return {"Rules": [renamed(rule, ENCRYPTION_WORDS) for rule in listed]}


def read_encryption(scope: Scope) -> dict[str, Any]:
    given = scope.properties["BucketEncryption"]
    rules = scope.send("get_bucket_encryption", Bucket=scope.id)["ServerSideEncryptionConfiguration"]["Rules"]
    words = {to: name for name, to in ENCRYPTION_WORDS.items()}
    return dict(like(given, {"ServerSideEncryptionConfiguration": [renamed(rule, words) for rule in rules]}))


def renamed(item: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    return {words.get(name, name): value for name, value in item.items()}


ENCRYPTION_WORDS = {"ServerSideEncryptionByDefault": "ApplyServerSideEncryptionByDefault"}

BUCKET = ApiResource(
    service="s3",
    name=Name(property="BucketName", limit=63, lower=True),
    create_call=create_bucket,
    identity=prop("BucketName"),
    describe=find("head_bucket", "ResponseMetadata", Bucket=ID),
    attributes={
        "Arn": text("arn:aws:s3:::{id}"),
        "DomainName": text("{id}.s3.amazonaws.com"),
        "DualStackDomainName": text("{id}.s3.dualstack.{region}.amazonaws.com"),
        "RegionalDomainName": text("{id}.s3.{region}.amazonaws.com"),
        "WebsiteURL": text("http://{id}.s3-website-{region}.amazonaws.com"),
    },
    settings=(
        setting("VersioningConfiguration", put=put_versioning),
        bucket_setting(
            "BucketEncryption",
            "put_bucket_encryption",
            "delete_bucket_encryption",
            ServerSideEncryptionConfiguration=encryption_rules,
        ),
        bucket_setting(
            "LifecycleConfiguration",
            "put_bucket_lifecycle_configuration",
            "delete_bucket_lifecycle",
            LifecycleConfiguration=lifecycle_rules,
        ),
        bucket_setting(
            "PublicAccessBlockConfiguration",
            "put_public_access_block",
            "delete_public_access_block",
            PublicAccessBlockConfiguration=prop("PublicAccessBlockConfiguration"),
        ),
        bucket_setting(
            "OwnershipControls",
            "put_bucket_ownership_controls",
            "delete_bucket_ownership_controls",
            OwnershipControls=prop("OwnershipControls"),
        ),
        setting("AccessControl", put=put_acl),
        setting(
            "LoggingConfiguration",
            put=call("put_bucket_logging", Bucket=ID, BucketLoggingStatus=logging_status),
        ),
        setting(
            "NotificationConfiguration",
            put=call(
                "put_bucket_notification_configuration", Bucket=ID, NotificationConfiguration=notifications
            ),
        ),
        setting("Tags", put=put_tags),
    ),
    delete_call=call("delete_bucket", Bucket=ID),
    reads={
        "VersioningConfiguration": lambda scope: {
            "Status": scope.send("get_bucket_versioning", Bucket=scope.id).get("Status", "Suspended")
        },
        "BucketEncryption": absent_when_refused(
            read_encryption, "ServerSideEncryptionConfigurationNotFoundError"
        ),
        "PublicAccessBlockConfiguration": absent_when_refused(
            read(
                "get_public_access_block", "PublicAccessBlockConfiguration", "PublicAccessBlockConfiguration"
            ),
            "NoSuchPublicAccessBlockConfiguration",
        ),
        "Tags": absent_when_refused(read("get_bucket_tagging", "Tags", "TagSet"), "NoSuchTagSet"),
    },
    accepts=frozenset({"BucketName", "ObjectLockEnabled"}),
)


class BucketPolicy:
    """moto applies a Deny without reading its Condition, so a TLS-only policy would lock everyone out.

    Such statements are recorded only; the others go to the bucket, where moto's access logging wants them.
    """

    fidelity = Fidelity.RECORDED

    def create(self, context: Context, properties: Properties) -> Resource:
        bucket = str(properties["Bucket"])
        enforceable = without_conditional_denies(properties["PolicyDocument"])
        scope = Scope(context=context, service="s3", id=bucket)
        scope.send("head_bucket", Bucket=bucket)
        if enforceable["Statement"]:
            scope.send("put_bucket_policy", Bucket=bucket, Policy=enforceable)
        else:
            scope.send("delete_bucket_policy", Bucket=bucket)
        keep(
            Record(
                region=context.region,
                type=POLICY_TYPE,
                physical_id=bucket,
                properties=properties,
                attributes={},
            )
        )
        return Resource(physical_id=bucket)

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        return self.create(context, new)

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        forget(context.region, POLICY_TYPE, resource.physical_id)
        try:
            scope = Scope(context=context, service="s3")
            scope.send("delete_bucket_policy", Bucket=resource.physical_id)
        except ApiError as error:
            if not is_gone(error):
                raise

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        kept = recall(context.region, POLICY_TYPE, resource.physical_id)
        return kept.properties if kept else None


def without_conditional_denies(policy: Mapping[str, Any]) -> dict[str, Any]:
    listed = policy["Statement"] if isinstance(policy["Statement"], list) else [policy["Statement"]]
    kept = [item for item in listed if not (item["Effect"] == "Deny" and item.get("Condition"))]
    return {**policy, "Statement": kept}


PROVIDERS: Mapping[str, Provider] = {"AWS::S3::Bucket": BUCKET, POLICY_TYPE: BucketPolicy()}


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _transitions(rule: Mapping[str, Any], name: str, *, days: str) -> list[dict[str, Any]]:
    single = [rule[name]] if rule.get(name) else []
    words = {"TransitionInDays": days, "TransitionDate": "Date"}
    return [renamed(item, words) for item in [*(rule.get(f"{name}s") or []), *single]]
