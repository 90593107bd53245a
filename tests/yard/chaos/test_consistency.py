"""Eventual consistency is as boto3 meets it: a new resource is unknown for a while, and then known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slipway.yard.chaos import conditions, consistency
from slipway.yard.endpoint import ACCOUNT, control
from slipway.yard.errors import ApiError
from tests.yard.accounts import own_image
from tests.yard.asking import make_role, refusal
from tests.yard.conftest import RunningYard


@pytest.fixture
def late(yard: RunningYard) -> RunningYard:
    """Start a yard in which news takes seconds: the seed's first draws are not near zero."""
    yard.client("ec2").register_image(Name="known")
    control(yard, "POST", "/switches", {"values": {"consistency": 120}, "seed": 1})
    return yard


def settle(yard: RunningYard) -> None:
    """End the delay, as time would."""
    control(yard, "POST", "/switches", {"values": {"consistency": 0}})


def profile_of(yard: RunningYard) -> str:
    iam = yard.client("iam")
    make_role(yard, "node", {"Service": "ec2.amazonaws.com", "AWS": ACCOUNT})
    iam.create_instance_profile(InstanceProfileName="node")
    iam.add_role_to_instance_profile(InstanceProfileName="node", RoleName="node")
    return "node"


def run(yard: RunningYard, **more: Any) -> dict[str, Any]:
    ec2 = yard.client("ec2")
    image = own_image(ec2)
    return {"ImageId": image, "InstanceType": "c6i.16xlarge", "MinCount": 1, "MaxCount": 1, **more}


def test_ec2_does_not_know_a_new_instance_profile_at_once(late: RunningYard) -> None:
    wanted = run(late, IamInstanceProfile={"Name": profile_of(late)})
    refused = refusal(late.client("ec2").run_instances, **wanted)
    assert refused["Code"] == "InvalidParameterValue"
    assert "Invalid IAM Instance Profile name" in refused["Message"]
    settle(late)
    assert len(late.client("ec2").run_instances(**wanted)["Instances"]) == 1


def test_iam_itself_knows_its_new_role_at_once(late: RunningYard) -> None:
    profile_of(late)
    assert late.client("iam").get_role(RoleName="node")["Role"]["RoleName"] == "node"


def test_a_new_role_cannot_be_assumed_at_once(late: RunningYard) -> None:
    profile_of(late)
    role = "arn:aws:iam::123456789012:role/node"
    assume = late.client("sts").assume_role
    assert refusal(assume, RoleArn=role, RoleSessionName="me")["Code"] == "AccessDenied"
    settle(late)
    assert assume(RoleArn=role, RoleSessionName="me")["Credentials"]


def test_image_builder_does_not_know_a_new_instance_profile_at_once(late: RunningYard) -> None:
    profile_of(late)
    make = late.client("imagebuilder").create_infrastructure_configuration
    refused = refusal(make, name="bake", instanceProfileName="node", clientToken="a")
    assert refused["Code"] == "InvalidParameterValueException"
    assert "The provided instance profile does not exist" in refused["Message"]


def test_auto_scaling_does_not_know_the_new_profile_of_a_launch_template_at_once(late: RunningYard) -> None:
    ec2, scaling = late.client("ec2"), late.client("autoscaling")
    data = {"ImageId": run(late)["ImageId"], "IamInstanceProfile": {"Name": profile_of(late)}}
    ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)
    group = {"AutoScalingGroupName": "nodes", "MinSize": 0, "MaxSize": 1}
    wanted = {**group, "LaunchTemplate": {"LaunchTemplateName": "nodes"}, "AvailabilityZones": ["us-east-1a"]}
    refused = refusal(scaling.create_auto_scaling_group, **wanted)
    assert refused["Code"] == "ValidationError"
    assert "Invalid IAM Instance Profile name" in refused["Message"]


def test_a_new_security_group_is_not_found_at_once(late: RunningYard) -> None:
    ec2 = late.client("ec2")
    group = ec2.create_security_group(GroupName="nodes", Description="nodes")["GroupId"]
    assert refusal(ec2.describe_security_groups, GroupIds=[group])["Code"] == "InvalidGroup.NotFound"
    settle(late)
    assert len(ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]) == 1


def test_a_new_image_is_not_found_at_once(late: RunningYard) -> None:
    ec2 = late.client("ec2")
    image = ec2.register_image(Name="baked", RootDeviceName="/dev/xvda")["ImageId"]
    assert refusal(ec2.describe_images, ImageIds=[image])["Code"] == "InvalidAMIID.NotFound"


def test_a_new_parameter_is_not_found_at_once_and_a_changed_one_is(late: RunningYard) -> None:
    ssm = late.client("ssm")
    settle(late)
    ssm.put_parameter(Name="/old", Value="1", Type="String")
    control(late, "POST", "/switches", {"values": {"consistency": 120}, "seed": 1})
    ssm.put_parameter(Name="/old", Value="2", Type="String", Overwrite=True)
    ssm.put_parameter(Name="/new", Value="1", Type="String")
    assert ssm.get_parameter(Name="/old")["Parameter"]["Value"] == "2"
    assert refusal(ssm.get_parameter, Name="/new")["Code"] == "ParameterNotFound"


def test_new_tags_are_not_seen_at_once(late: RunningYard) -> None:
    ec2 = late.client("ec2")
    settle(late)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    control(late, "POST", "/switches", {"values": {"consistency": 120}, "seed": 1})
    ec2.create_tags(Resources=[vpc], Tags=[{"Key": "Name", "Value": "mine"}])
    tags = {"Name": "resource-id", "Values": [vpc]}
    assert ec2.describe_tags(Filters=[tags])["Tags"] == []
    settle(late)
    assert [tag["Value"] for tag in ec2.describe_tags(Filters=[tags])["Tags"]] == ["mine"]


def test_s3_is_strongly_consistent(late: RunningYard) -> None:
    s3 = late.client("s3")
    s3.create_bucket(Bucket="slipway-fresh")
    s3.put_object(Bucket="slipway-fresh", Key="a", Body=b"1")
    assert s3.get_object(Bucket="slipway-fresh", Key="a")["Body"].read() == b"1"
    assert [content["Key"] for content in s3.list_objects_v2(Bucket="slipway-fresh")["Contents"]] == ["a"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    moment = [0.0]
    monkeypatch.setattr(consistency, "now", lambda: moment[0])
    conditions.switch({"consistency": 10}, seed=1)
    return lambda seconds: moment.__setitem__(0, moment[0] + seconds)


def test_what_is_unknown_is_known_before_the_longest_time_is_over(clock: Callable[[float], None]) -> None:
    for name in ("a", "b", "c"):
        consistency.note("iam", "CreateRole", {"RoleName": name}, b"")
    assume = {"RoleArn": "arn:aws:iam::123456789012:role/c"}
    with pytest.raises(ApiError, match="AccessDenied"):
        consistency.check("sts", "AssumeRole", assume)
    assert consistency.is_settling()
    clock(10)
    consistency.check("sts", "AssumeRole", assume)
    assert not consistency.is_settling()
