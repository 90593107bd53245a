"""S3: buckets and their policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, Setting, call, find, setting
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import (
    ID,
    Expression,
    ResourceScope,
    is_gone,
    pick,
    prop,
    text,
)
from slipway.yard.cloudformation.resources.shapes import like
from slipway.yard.cloudformation.resources.tags import as_map
from slipway.yard.errors import ApiError
from slipway.yard.services.s3.lifecycle import lifecycle_rule, renamed
from slipway.yard.services.s3.policy import write_policy
from slipway.yard.services.s3.settings import SETTINGS


def create_bucket(scope: ResourceScope) -> dict[str, Any]:
    region, name = scope.context.region, scope.properties["BucketName"]
    if find("head_bucket", "ResponseMetadata", Bucket=name)(scope):  # in us-east-1 S3 would answer 200
        raise ApiError("BucketAlreadyOwnedByYou", f"{name} already exists")
    # S3 itself: us-east-1 is the one region that must not be named.
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
    """moto wants the logging service permitted beforehand; S3 does not.

    A policy that permits it for one bucket, as the CDK writes it, can only come after that bucket: so it is
    permitted for the length of the call.
    """
    status = logging_status(scope)
    target = status.get("LoggingEnabled", {}).get("TargetBucket")
    policy = current_policy(scope, target) if target else None
    if target:
        write_policy(scope, target, permit_logging(target))
    try:
        scope.send("put_bucket_logging", Bucket=scope.id, BucketLoggingStatus=status)
    finally:
        if target:
            write_policy(scope, target, policy)


def current_policy(scope: ResourceScope, bucket: str) -> str | None:
    try:
        return str(scope.send("get_bucket_policy", Bucket=bucket)["Policy"])
    except ApiError as error:
        if error.code == "NoSuchBucketPolicy":
            return None
        raise


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
    """A bucket that was versioned once can only be suspended."""
    status = scope.properties.get("VersioningConfiguration", {}).get("Status", "Suspended")
    scope.send("put_bucket_versioning", Bucket=scope.id, VersioningConfiguration={"Status": status})


def put_acl(scope: ResourceScope) -> None:
    """S3's request writes BucketOwnerFullControl as bucket-owner-full-control."""
    words = re.findall(r"[A-Z][a-z]*", scope.properties.get("AccessControl", "Private"))
    scope.send("put_bucket_acl", Bucket=scope.id, ACL="-".join(words).lower())


def bucket_setting(name: str, put: str, remove: str, **parameters: Any) -> Setting:
    return setting(name, put=call(put, Bucket=ID, **parameters), remove=call(remove, Bucket=ID))


def read(operation: str, name: str, path: str) -> Expression:
    def live(scope: ResourceScope) -> Any:
        found = pick(scope.send(operation, Bucket=scope.id), path)
        return None if found is None else like(scope.properties[name], found)

    return live


def absent_when_refused(expression: Expression, code: str) -> Expression:
    """S3 answers what is not configured with an error of its own."""

    def live(scope: ResourceScope) -> Any:
        try:
            return expression(scope)
        except ApiError as error:
            if is_gone(error) or error.code == code:
                return None
            raise

    return live


def encryption_rules(scope: ResourceScope) -> dict[str, Any]:
    listed = scope.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    return {"Rules": [renamed(rule, ENCRYPTION_WORDS) for rule in listed]}


def read_encryption(scope: ResourceScope) -> dict[str, Any]:
    given = scope.properties["BucketEncryption"]
    rules = scope.send("get_bucket_encryption", Bucket=scope.id)["ServerSideEncryptionConfiguration"]["Rules"]
    words = {to: name for name, to in ENCRYPTION_WORDS.items()}
    return dict(like(given, {"ServerSideEncryptionConfiguration": [renamed(rule, words) for rule in rules]}))


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
        setting("LoggingConfiguration", put=put_logging),
        *SETTINGS,
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


PROVIDERS: Mapping[str, Provider] = {"AWS::S3::Bucket": BUCKET}
