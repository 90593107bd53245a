"""Resource types of S3: buckets and their policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, Name, Setting, as_map, call, find, setting
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import (
    ID,
    Expression,
    ResourceScope,
    prop,
    text,
)
from slipway.yard.cloudformation.resources.shapes import like
from slipway.yard.errors import ApiError

# Lifecycle rules: CloudFormation's are flat where S3's request is nested.


def lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
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
    """Return the rule's filter: a single condition, or several within And."""
    conditions = _present(
        {name: rule.get(name) for name in ("Prefix", "ObjectSizeGreaterThan", "ObjectSizeLessThan")}
    )
    tags = [dict(tag) for tag in rule.get("TagFilters") or []]
    if len(conditions) + len(tags) > 1:
        return {"And": {**conditions, **({"Tags": tags} if tags else {})}}
    return conditions or ({"Tag": tags[0]} if tags else {"Prefix": ""})


def renamed(item: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    return {words.get(name, name): value for name, value in item.items()}


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _transitions(rule: Mapping[str, Any], name: str, *, days: str) -> list[dict[str, Any]]:
    single = [rule[name]] if rule.get(name) else []
    words = {"TransitionInDays": days, "TransitionDate": "Date"}
    return [renamed(item, words) for item in [*(rule.get(f"{name}s") or []), *single]]


# Other settings of buckets. Names in a template -> names in S3's request, where they differ.
CORS_WORDS = {"ExposedHeaders": "ExposeHeaders", "MaxAge": "MaxAgeSeconds", "Id": "ID"}
# Property's list -> (parameter's list, property and parameter that name the target).
NOTIFIED = {
    "TopicConfigurations": ("TopicConfigurations", "Topic", "TopicArn"),
    "QueueConfigurations": ("QueueConfigurations", "Queue", "QueueArn"),
    "LambdaConfigurations": ("LambdaFunctionConfigurations", "Function", "LambdaFunctionArn"),
}
# Only the template keeps these: moto has no calls for them.
UNSEEN = (
    "AccelerateConfiguration AnalyticsConfigurations IntelligentTieringConfigurations "
    "InventoryConfigurations MetadataTableConfiguration MetricsConfigurations"
)


def cors(scope: ResourceScope) -> dict[str, Any]:
    rules = scope.properties["CorsConfiguration"]["CorsRules"]
    return {"CORSRules": [renamed(rule, CORS_WORDS) for rule in rules]}


def website(scope: ResourceScope) -> dict[str, Any]:
    """Return the website configuration in S3's form: each page in an object of its own."""
    given = scope.properties["WebsiteConfiguration"]
    rules = [
        {"Redirect": rule["RedirectRule"], "Condition": rule.get("RoutingRuleCondition") or {}}
        for rule in given.get("RoutingRules") or ()
    ]
    parts = {
        "IndexDocument": {"Suffix": given["IndexDocument"]} if "IndexDocument" in given else None,
        "ErrorDocument": {"Key": given["ErrorDocument"]} if "ErrorDocument" in given else None,
        "RedirectAllRequestsTo": given.get("RedirectAllRequestsTo"),
        "RoutingRules": rules or None,
    }
    return {name: value for name, value in parts.items() if value}


def notifications(scope: ResourceScope) -> dict[str, Any]:
    given = dict(scope.properties.get("NotificationConfiguration") or {})
    bridge = given.get("EventBridgeConfiguration", {}).get("EventBridgeEnabled")
    listed = {
        to: [_notified(item, whom, arn) for item in given.get(name) or ()]
        for name, (to, whom, arn) in NOTIFIED.items()
    }
    return {**listed, **({"EventBridgeConfiguration": {}} if bridge else {})}


def _notified(item: Mapping[str, Any], whom: str, arn: str) -> dict[str, Any]:
    rules = (item.get("Filter") or {}).get("S3Key", {}).get("Rules")
    found = {arn: item[whom], "Events": [item["Event"]]}
    return {**found, "Filter": {"Key": {"FilterRules": rules}}} if rules else found


def stored(name: str, word: str, **parameters: Any) -> Setting:
    """Return a Setting that S3 stores for a bucket, with the property's value unless parameters are given."""
    put = call(f"put_{word}", Bucket=ID, **(parameters or {name: prop(name)}))
    return setting(name, put=put, remove=call(f"delete_{word}", Bucket=ID))


SETTINGS = (
    stored("CorsConfiguration", "bucket_cors", CORSConfiguration=cors),
    stored("WebsiteConfiguration", "bucket_website", WebsiteConfiguration=website),
    stored("ReplicationConfiguration", "bucket_replication"),
    setting(
        "ObjectLockConfiguration",
        put=call(
            "put_object_lock_configuration",
            Bucket=ID,
            ObjectLockConfiguration=prop("ObjectLockConfiguration"),
        ),
        remove=lambda _scope: None,  # S3 cannot remove it
    ),
    setting(
        "NotificationConfiguration",
        put=call(
            "put_bucket_notification_configuration",
            Bucket=ID,
            NotificationConfiguration=notifications,
            SkipDestinationValidation=True,
        ),
    ),
    setting(UNSEEN, put=lambda _scope: None),
)


# Bucket policies. yard/permissions judges them; moto's own check is off.


def write_policy(scope: ResourceScope, bucket: str, policy: Mapping[str, Any] | str | None) -> None:
    if policy is None:
        scope.send("delete_bucket_policy", Bucket=bucket)
    else:
        scope.send("put_bucket_policy", Bucket=bucket, Policy=policy)


def create_bucket(scope: ResourceScope) -> dict[str, Any]:
    region, name = scope.context.region, scope.properties["BucketName"]
    # In us-east-1 S3 would answer 200 for an own bucket.
    if find("head_bucket", "ResponseMetadata", Bucket=name)(scope):
        raise ApiError("BucketAlreadyOwnedByYou", f"{name} already exists")
    # us-east-1 is the only region that must not be named.
    constraint = None if region == "us-east-1" else {"LocationConstraint": region}
    return scope.send(
        "create_bucket",
        Bucket=name,
        CreateBucketConfiguration=constraint,
        ObjectLockEnabledForBucket=scope.properties.get("ObjectLockEnabled"),
    )


def lifecycle_rules(scope: ResourceScope) -> dict[str, Any]:
    return {"Rules": [lifecycle_rule(rule) for rule in scope.properties["LifecycleConfiguration"]["Rules"]]}


def logging_status(scope: ResourceScope) -> dict[str, Any]:
    given = scope.properties.get("LoggingConfiguration")
    if not given:
        return {}
    target = given.get("DestinationBucketName", scope.id)
    return {"LoggingEnabled": {"TargetBucket": target, "TargetPrefix": given.get("LogFilePrefix", "")}}


def put_logging(scope: ResourceScope) -> None:
    """Set the logging; a policy permits the logging service during the call, since moto checks that.

    S3 does not, and the CDK's policy for the target bucket can only be made after the bucket.
    """
    status = logging_status(scope)
    target = status.get("LoggingEnabled", {}).get("TargetBucket")
    policy = find("get_bucket_policy", "Policy", Bucket=target)(scope) if target else None
    if target:
        write_policy(scope, target, permit_logging(target))
    try:
        scope.send("put_bucket_logging", Bucket=scope.id, BucketLoggingStatus=status)
    finally:
        if target:
            write_policy(scope, target, policy)


def permit_logging(bucket: str) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "logging.s3.amazonaws.com"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def put_tags(scope: ResourceScope) -> None:
    tags = [{"Key": key, "Value": value} for key, value in as_map(scope.properties, "Tags").items()]
    if tags:
        scope.send("put_bucket_tagging", Bucket=scope.id, Tagging={"TagSet": tags})
    else:
        scope.send("delete_bucket_tagging", Bucket=scope.id)


def put_versioning(scope: ResourceScope) -> None:
    """Set versioning; without the property, suspend it, since a versioned bucket stays versioned."""
    status = scope.properties.get("VersioningConfiguration", {}).get("Status", "Suspended")
    scope.send("put_bucket_versioning", Bucket=scope.id, VersioningConfiguration={"Status": status})


def put_acl(scope: ResourceScope) -> None:
    """Set the ACL: S3's request has bucket-owner-full-control for BucketOwnerFullControl."""
    words = re.findall(r"[A-Z][a-z]*", scope.properties.get("AccessControl", "Private"))
    scope.send("put_bucket_acl", Bucket=scope.id, ACL="-".join(words).lower())


def read(operation: str, name: str, path: str) -> Expression:
    """Return the expression for a setting; None if S3 answers that nothing is configured."""

    def live(scope: ResourceScope) -> Any:
        found = find(operation, path, Bucket=ID)(scope)
        return None if found is None else like(scope.properties[name], found)

    return live


def encryption_rules(scope: ResourceScope) -> dict[str, Any]:
    listed = scope.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    return {"Rules": [renamed(rule, ENCRYPTION_WORDS) for rule in listed]}


def read_encryption(scope: ResourceScope) -> dict[str, Any] | None:
    given = scope.properties["BucketEncryption"]
    rules = find("get_bucket_encryption", "ServerSideEncryptionConfiguration.Rules", Bucket=ID)(scope)
    if rules is None:
        return None
    words = {to: name for name, to in ENCRYPTION_WORDS.items()}
    return dict(like(given, {"ServerSideEncryptionConfiguration": [renamed(rule, words) for rule in rules]}))


ENCRYPTION_WORDS = {"ServerSideEncryptionByDefault": "ApplyServerSideEncryptionByDefault"}


PROVIDERS: Mapping[str, Provider] = {
    "AWS::S3::BucketPolicy": ApiResource(
        service="s3",
        identity=prop("Bucket"),
        accepts="Bucket",
        settings=(
            setting(
                "PolicyDocument", put=call("put_bucket_policy", Bucket=ID, Policy=prop("PolicyDocument"))
            ),
        ),
        delete_call=call("delete_bucket_policy", Bucket=ID),
        describe=find("get_bucket_policy", "", Bucket=ID),
        reads={
            "PolicyDocument": lambda scope: like(scope.properties["PolicyDocument"], scope.live["Policy"])
        },
    ),
    "AWS::S3::Bucket": ApiResource(
        service="s3",
        name=Name(property="BucketName", limit=63, lower=True),
        create_call=create_bucket,
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
            stored(
                "BucketEncryption", "bucket_encryption", ServerSideEncryptionConfiguration=encryption_rules
            ),
            setting(
                "LifecycleConfiguration",
                put=call(
                    "put_bucket_lifecycle_configuration", Bucket=ID, LifecycleConfiguration=lifecycle_rules
                ),
                remove=call("delete_bucket_lifecycle", Bucket=ID),
            ),
            stored("PublicAccessBlockConfiguration", "public_access_block"),
            stored("OwnershipControls", "bucket_ownership_controls"),
            setting("AccessControl", put=put_acl),
            setting("LoggingConfiguration", put=put_logging),
            *SETTINGS,
            setting("Tags", put=put_tags),
        ),
        delete_call=call("delete_bucket", Bucket=ID),
        reads={
            "VersioningConfiguration": lambda scope: {
                "Status": scope.send("get_bucket_versioning", Bucket=scope.id).get("Status", "Suspended")
            },
            "BucketEncryption": read_encryption,
            "PublicAccessBlockConfiguration": read(
                "get_public_access_block", "PublicAccessBlockConfiguration", "PublicAccessBlockConfiguration"
            ),
            "Tags": read("get_bucket_tagging", "Tags", "TagSet"),
        },
        accepts="BucketName ObjectLockEnabled",
    ),
}
