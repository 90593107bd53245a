"""What boto3 meets when it talks to the yard: whose keys open it, and what it says of what it has not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.cloud.aws import client_at
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import ACCESS_KEY_ID, control
from tests.yard.asking import BY_ACCOUNT, EVERYTHING, client_of, make_role, refusal, send
from tests.yard.conftest import REGION, RunningYard

# One service of each protocol, and a call of it that needs nothing.
PROTOCOLS = {
    "ec2": ("ec2", "describe_vpcs"),
    "json": ("ecs", "list_clusters"),
    "query": ("sts", "get_caller_identity"),
    "rest-json": ("batch", "describe_job_queues"),
    "rest-xml": ("s3", "list_buckets"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_key_that_is_not_the_yards_is_refused_in_every_protocol(yard: RunningYard, protocol: str) -> None:
    service, operation = PROTOCOLS[protocol]
    stranger = client_at(yard.endpoint, service, REGION, "AKIAREALACCOUNTKEY", "real")
    refused = refusal(getattr(stranger, operation))
    assert (refused["Code"], refused["status"]) == ("InvalidClientTokenId", 403)
    assert "this is the yard, not AWS" in refused["Message"]
    assert 'eval "$(slipway yard env)"' in refused["Message"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_yards_own_key_opens_it_in_every_protocol(yard: RunningYard, protocol: str) -> None:
    service, operation = PROTOCOLS[protocol]
    answer = getattr(yard.client(service), operation)()
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_a_key_from_the_yards_own_sts_opens_it_until_the_yard_is_reset(yard: RunningYard) -> None:
    role = make_role(yard, "cdk-deploy", BY_ACCOUNT, EVERYTHING)
    given = yard.client("sts").assume_role(RoleArn=role, RoleSessionName="cdk")["Credentials"]
    assumed = client_of(yard, "s3", given)
    assert assumed.list_buckets()["Buckets"] == []
    control(yard, "POST", "/reset")
    assert refusal(assumed.list_buckets)["Code"] == "InvalidClientTokenId"


def test_an_unsigned_request_is_refused(yard: RunningYard) -> None:
    status, answer = send("GET", f"{yard.endpoint}/bucket/key")
    assert (status, json.loads(answer)["__type"]) == (403, "MissingAuthenticationToken")


def test_a_presigned_url_opens_its_object(yard: RunningYard) -> None:
    s3 = yard.client("s3")
    s3.create_bucket(Bucket="presigned")
    s3.put_object(Bucket="presigned", Key="a/b", Body=b"content")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "presigned", "Key": "a/b"})
    assert send("GET", url) == (200, b"content")


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "named"),
    [
        ("fsx", "describe_data_repository_associations", {}, "fsx:DescribeDataRepositoryAssociations"),
        ("braket", "search_devices", {"filters": []}, "braket:SearchDevices"),
        ("ec2", "describe_vpcs", {"Filters": [{"Name": "no-such", "Values": ["a"]}]}, "ec2:DescribeVpcs"),
        ("imagebuilder", "list_workflows", {}, "imagebuilder:ListWorkflows"),
    ],
)
def test_what_the_yard_has_not_is_one_clear_error_that_no_sdk_repeats(
    yard: RunningYard, service: str, operation: str, parameters: dict[str, Any], named: str
) -> None:
    refused = refusal(getattr(yard.client(service), operation), **parameters)
    assert (refused["Code"], refused["status"]) == ("NotImplemented", 501)
    assert f"does not emulate {named}" in refused["Message"]


def test_a_crash_of_moto_is_one_error_that_names_the_call(yard: RunningYard) -> None:
    refused = refusal(yard.client("sagemaker").describe_experiment, ExperimentName="nobodys")
    assert (refused["Code"], refused["status"]) == ("InternalFailure", 501)
    assert "the yard failed in sagemaker:DescribeExperiment: KeyError" in refused["Message"]
    assert "slipway yard logs" in refused["Message"]


def test_after_a_failed_deploy_the_cdk_finds_an_empty_trail(yard: RunningYard) -> None:
    assert yard.client("cloudtrail").lookup_events()["Events"] == []


def test_an_object_with_any_name_and_metadata_comes_back_as_it_was(yard: RunningYard) -> None:
    s3 = yard.client("s3")
    s3.create_bucket(Bucket="names")
    key, metadata = "a b/ü+%2F/..x", {"with_underscore": "1"}
    s3.put_object(Bucket="names", Key=key, Body=b"x" * 200_000, Metadata=metadata)
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="names")["Contents"]] == [key]
    got = s3.get_object(Bucket="names", Key=key)
    assert (len(got["Body"].read()), got["Metadata"]) == (200_000, metadata)
    assert refusal(s3.head_object, Bucket="names", Key="other")["status"] == 404


def test_regions_do_not_see_each_other(yard: RunningYard) -> None:
    yard.client("ecs", "us-east-1").create_cluster(clusterName="here")
    assert yard.client("ecs", "eu-west-1").list_clusters()["clusterArns"] == []


def test_a_reset_yard_holds_nothing(yard: RunningYard) -> None:
    yard.client("s3").create_bucket(Bucket="gone")
    yard.client("ec2").create_placement_group(GroupName="gone")
    control(yard, "POST", "/reset")
    assert yard.client("s3").list_buckets()["Buckets"] == []
    assert yard.client("ec2").describe_placement_groups()["PlacementGroups"] == []


def test_what_aws_brings_is_as_new_after_a_reset(yard: RunningYard) -> None:
    """The second reset is another than the first: from then on images and policies are copies."""
    arn = "arn:aws:iam::aws:policy/ReadOnlyAccess"
    for _ in range(3):
        ec2, iam = yard.client("ec2"), yard.client("iam")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]
        snapshot = image["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
        asked = {"ImageId": image["ImageId"], "Attribute": "launchPermission"}
        assert ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]
        assert ec2.describe_image_attribute(**asked)["LaunchPermissions"] == [{"Group": "all"}]
        assert iam.get_policy(PolicyArn=arn)["Policy"]["AttachmentCount"] == 0
        iam.create_user(UserName="reader")
        iam.attach_user_policy(UserName="reader", PolicyArn=arn)
        ec2.modify_image_attribute(**asked, LaunchPermission={"Add": [{"UserId": "210987654321"}]})
        ec2.deregister_image(ImageId=image["ImageId"])
        control(yard, "POST", "/reset")


def test_the_yards_controls_refuse_an_address_elsewhere(yard: RunningYard) -> None:
    with pytest.raises(SlipwayError, match="not on this machine"):
        control(replace(yard, endpoint="https://ec2.us-east-1.amazonaws.com"), "POST", "/reset")


def test_the_yard_listens_on_the_loopback_address_only(yard: RunningYard) -> None:
    assert yard.endpoint.startswith("http://127.0.0.1:")
    assert ACCESS_KEY_ID[:4] not in ("AKIA", "ASIA")
