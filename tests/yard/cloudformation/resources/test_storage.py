"""Buckets, their policies, and Lustre."""

from __future__ import annotations

import json

import pytest

from slipway.yard.services.s3.resources import lifecycle_rule
from tests.yard.cloudformation.resources.world import World


def tls_only(bucket: str) -> dict[str, object]:
    deny = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    allow = {
        "Effect": "Allow",
        "Principal": {"Service": "logging.s3.amazonaws.com"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    return {"Version": "2012-10-17", "Statement": [deny, allow]}


def test_a_tls_only_policy_does_not_lock_the_bucket(world: World) -> None:
    bucket = world.bucket()
    world.make("AWS::S3::BucketPolicy", Bucket=bucket, PolicyDocument=tls_only(bucket))
    s3 = world.client("s3")
    s3.put_object(Bucket=bucket, Key="data", Body=b"x")
    assert s3.get_object(Bucket=bucket, Key="data")["Body"].read() == b"x"
    s3.delete_object(Bucket=bucket, Key="data")


def test_the_whole_policy_stands_in_s3_and_goes_with_its_resource(world: World) -> None:
    bucket = world.bucket()
    policy = world.make("AWS::S3::BucketPolicy", Bucket=bucket, PolicyDocument=tls_only(bucket))
    s3 = world.client("s3")
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]) == tls_only(bucket)
    policy.delete()
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)


def test_access_logs_may_be_asked_for_before_the_policy_that_permits_them(world: World) -> None:
    target = world.bucket()
    logging = {"DestinationBucketName": target, "LogFilePrefix": "access/"}
    source = world.make("AWS::S3::Bucket", LoggingConfiguration=logging)
    world.make("AWS::S3::BucketPolicy", Bucket=target, PolicyDocument=tls_only(target))
    said = world.client("s3").get_bucket_logging(Bucket=source.id)["LoggingEnabled"]
    assert (said["TargetBucket"], said["TargetPrefix"]) == (target, "access/")
    source.update(LoggingConfiguration=None)
    s3 = world.client("s3")
    for log in s3.list_objects_v2(Bucket=target).get("Contents", []):
        s3.delete_object(Bucket=target, Key=log["Key"])


def test_a_bucket_is_named_as_s3_allows(world: World) -> None:
    name = world.make("AWS::S3::Bucket").id
    assert name == name.lower()
    assert len(name) <= 63


def test_versioning_that_is_taken_away_is_suspended(world: World) -> None:
    bucket = world.make("AWS::S3::Bucket", VersioningConfiguration={"Status": "Enabled"})
    bucket.update(VersioningConfiguration=None)
    assert world.client("s3").get_bucket_versioning(Bucket=bucket.id)["Status"] == "Suspended"


@pytest.mark.parametrize(
    ("rule", "nested"),
    [
        ({"Status": "Enabled", "ExpirationInDays": 3}, {"Filter": {"Prefix": ""}, "Expiration": {"Days": 3}}),
        (
            {"Status": "Enabled", "Prefix": "a/", "TagFilters": [{"Key": "k", "Value": "v"}]},
            {"Filter": {"And": {"Prefix": "a/", "Tags": [{"Key": "k", "Value": "v"}]}}},
        ),
        (
            {
                "Status": "Enabled",
                "NoncurrentVersionTransitions": [{"StorageClass": "GLACIER", "TransitionInDays": 9}],
            },
            {
                "Filter": {"Prefix": ""},
                "NoncurrentVersionTransitions": [{"StorageClass": "GLACIER", "NoncurrentDays": 9}],
            },
        ),
    ],
)
def test_a_lifecycle_rule_is_nested_as_s3_wants_it(
    rule: dict[str, object], nested: dict[str, object]
) -> None:
    assert lifecycle_rule(rule) == {"Status": "Enabled", **nested}


def test_lustre_shows_where_to_mount_it(world: World) -> None:
    made = world.make(
        "AWS::FSx::FileSystem",
        FileSystemType="LUSTRE",
        SubnetIds=[world.subnet()],
        StorageCapacity=1200,
        LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
    )
    assert made.attribute("DNSName") == f"{made.id}.fsx.us-east-1.amazonaws.com"
    assert made.attribute("LustreMountName")


def test_a_data_repository_is_recorded_under_an_id_like_those_of_fsx(world: World) -> None:
    made = world.make(
        "AWS::FSx::DataRepositoryAssociation",
        FileSystemId="fs-0123456789abcdef0",
        FileSystemPath="/data",
        DataRepositoryPath="s3://bucket",
    )
    assert made.id.startswith("dra-")
    assert len(made.id) == len("dra-0123456789abcdef0")
    assert made.attribute("ResourceARN").endswith(f":association/fs-0123456789abcdef0/{made.id}")
