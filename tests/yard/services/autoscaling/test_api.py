"""An Auto Scaling group launches what its launch template says, and replaces a lost instance."""

from __future__ import annotations

import base64
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.yard.machines.hosts import instances
from slipway.yard.services.autoscaling import api
from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard

GROUP = "c6i-nodes"
PARAMETER = "/slipway/amis/cpu-mpi/id"


class Region:
    """Make a network, a launch template whose image is a parameter, and a group."""

    def __init__(self, yard: RunningYard) -> None:
        self.ec2, self.scaling, self.ssm = (yard.client(each) for each in ("ec2", "autoscaling", "ssm"))
        self.iam = yard.client("iam")
        self.vpc = self.ec2.create_vpc(CidrBlock="10.30.0.0/16")["Vpc"]["VpcId"]
        self.subnet = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock="10.30.0.0/24")["Subnet"]["SubnetId"]
        self.group = self.ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=self.vpc)[
            "GroupId"
        ]
        self.ec2.create_placement_group(GroupName="c6i", Strategy="cluster")
        self.image = self.ec2.register_image(Name="nodes")["ImageId"]
        self.ssm.put_parameter(Name=PARAMETER, Value=self.image, Type="String", Overwrite=True)

    def template(self, **data: Any) -> str:
        interface = {"DeviceIndex": 0, "InterfaceType": "efa", "Groups": [self.group]}
        given = {
            "ImageId": f"resolve:ssm:{PARAMETER}",
            "InstanceType": "c6i.32xlarge",
            "NetworkInterfaces": [interface],
            "MetadataOptions": {"HttpTokens": "required"},
            "UserData": base64.b64encode(b"#!/bin/sh\n").decode(),
            **data,
        }
        made = self.ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=given)
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def start(self, template: str, nodes: int = 2) -> None:
        self.scaling.create_auto_scaling_group(
            AutoScalingGroupName=GROUP,
            MinSize=0,
            MaxSize=4,
            DesiredCapacity=nodes,
            VPCZoneIdentifier=self.subnet,
            PlacementGroup="c6i",
            LaunchTemplate={"LaunchTemplateId": template, "Version": "1"},
            Tags=[{"Key": "slipway:cluster", "Value": "c6i", "PropagateAtLaunch": True}],
        )

    def instances(self, **state: str) -> list[dict[str, Any]]:
        wanted = [{"Name": "instance-state-name", "Values": [state.get("state", "running")]}]
        found = self.ec2.describe_instances(Filters=wanted)["Reservations"]
        return [instance for each in found for instance in each["Instances"]]


@pytest.fixture
def region(yard: RunningYard) -> Region:
    return Region(yard)


def test_an_instance_of_a_group_is_what_its_launch_template_says(region: Region) -> None:
    profile = region.iam.create_instance_profile(InstanceProfileName="nodes")["InstanceProfile"]["Arn"]
    region.start(region.template(IamInstanceProfile={"Arn": profile}))
    one, other = region.instances()
    assert one["IamInstanceProfile"]["Arn"] == profile
    assert one["ImageId"] == region.image
    assert one["InstanceType"] == "c6i.32xlarge"
    assert [group["GroupId"] for group in one["SecurityGroups"]] == [region.group]
    assert one["SubnetId"] == region.subnet
    assert one["PrivateIpAddress"] != other["PrivateIpAddress"]
    assert one["PrivateIpAddress"].startswith("10.30.0.")
    assert one["Placement"]["GroupName"] == "c6i"
    assert one["MetadataOptions"]["HttpTokens"] == "required"
    assert {"Key": "slipway:cluster", "Value": "c6i"} in one["Tags"]
    assert {"Key": "aws:autoscaling:groupName", "Value": GROUP} in one["Tags"]


def test_a_terminated_instance_is_replaced_and_leaves_no_interface_behind(region: Region) -> None:
    region.start(region.template())
    gone, stays = (instance["InstanceId"] for instance in region.instances())
    region.ec2.terminate_instances(InstanceIds=[gone])
    left = {instance["InstanceId"] for instance in region.instances()}
    assert (len(left), stays in left, gone in left) == (2, True, False)
    assert len(region.ec2.describe_network_interfaces()["NetworkInterfaces"]) == 2


def test_nothing_is_launched_while_launches_are_suspended(region: Region) -> None:
    region.start(region.template())
    region.scaling.suspend_processes(AutoScalingGroupName=GROUP, ScalingProcesses=["Launch"])
    region.ec2.terminate_instances(InstanceIds=[region.instances()[0]["InstanceId"]])
    assert len(region.instances()) == 1


@pytest.mark.parametrize(
    ("image", "says"),
    [("resolve:ssm:/none", "no parameter /none"), ("ami-0000000000000dead", "ami-0000000000000dead")],
)
def test_a_group_whose_image_is_not_there_is_refused(region: Region, image: str, says: str) -> None:
    template = region.template(ImageId=image)
    with pytest.raises(region.scaling.exceptions.ClientError, match=says):
        region.start(template)
    assert region.scaling.describe_auto_scaling_groups()["AutoScalingGroups"] == []


def test_a_group_is_refused_that_wants_more_than_it_may_have(region: Region) -> None:
    template = region.template()
    with pytest.raises(region.scaling.exceptions.ClientError, match="Desired capacity:5"):
        region.start(template, nodes=5)


def test_a_group_without_capacity_is_tried_again_and_not_one_of_its_name_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    due: list[Callable[[], None]] = []
    launched: list[Any] = []

    def timer(_: float, then: Callable[..., None], given: list[Any]) -> SimpleNamespace:
        due.append(lambda: then(*given))
        return SimpleNamespace(daemon=True, start=lambda: None)

    monkeypatch.setattr("threading.Timer", timer)
    monkeypatch.setattr(instances, "groups_without_capacity", {})
    gone, stands = (SimpleNamespace(region="us-east-1", name=GROUP) for _ in range(2))
    api.record_lack(gone, "no capacity", launched.append)
    instances.groups_without_capacity.clear()  # the yard is reset, and another group has the name
    api.record_lack(stands, "no capacity", launched.append)
    for each in due:
        each()
    assert launched == [stands]


def test_two_groups_have_two_names(region: Region) -> None:
    template = region.template()
    region.start(template, nodes=0)
    with pytest.raises(region.scaling.exceptions.AlreadyExistsFault):
        region.start(template, nodes=0)
    assert refusal(region.scaling.delete_auto_scaling_group, AutoScalingGroupName="none")["Code"]
