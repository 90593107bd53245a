"""What EC2 and Auto Scaling do with launches: pending first, no capacity for large types, Spot taken back."""

from __future__ import annotations

import time
from typing import Any

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard

PATIENCE_S = 60.0
LARGE, SMALL = "c6i.16xlarge", "c6i.large"


def switch(yard: RunningYard, **values: float) -> None:
    given = {name.replace("_", "-"): value for name, value in values.items()}
    control(yard, "POST", "/switches", {"values": given, "seed": 1})


def image(yard: RunningYard) -> str:
    ec2 = yard.client("ec2")
    known = ec2.describe_images(Owners=["self"])["Images"] or [ec2.register_image(Name="nodes")]
    return str(known[0]["ImageId"])


def run(yard: RunningYard, instance_type: str) -> dict[str, Any]:
    return {"ImageId": image(yard), "InstanceType": instance_type, "MinCount": 1, "MaxCount": 1}


def group(yard: RunningYard, instance_type: str, nodes: int) -> None:
    data = {"ImageId": image(yard), "InstanceType": instance_type}
    yard.client("ec2").create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)
    yard.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName="nodes",
        MinSize=0,
        MaxSize=4,
        DesiredCapacity=nodes,
        LaunchTemplate={"LaunchTemplateName": "nodes"},
        AvailabilityZones=["us-east-1a"],
    )


def instances(yard: RunningYard) -> list[dict[str, Any]]:
    (found,) = yard.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["nodes"])[
        "AutoScalingGroups"
    ]
    return list(found["Instances"])


def activities(yard: RunningYard) -> list[dict[str, Any]]:
    scaling = yard.client("autoscaling")
    return list(scaling.describe_scaling_activities(AutoScalingGroupName="nodes")["Activities"])


def state(yard: RunningYard, instance: str) -> str:
    (status,) = yard.client("ec2").describe_instance_status(InstanceIds=[instance], IncludeAllInstances=True)[
        "InstanceStatuses"
    ]
    return str(status["InstanceState"]["Name"])


def test_ec2_has_no_capacity_for_a_large_type_and_some_for_a_small_one(yard: RunningYard) -> None:
    switch(yard, no_capacity=100)
    ec2 = yard.client("ec2")
    refused = refusal(ec2.run_instances, **run(yard, LARGE))
    assert (refused["Code"], refused["status"]) == ("InsufficientInstanceCapacity", 500)
    assert f"sufficient {LARGE} capacity in the Availability Zone" in refused["Message"]
    assert len(ec2.run_instances(**run(yard, SMALL))["Instances"]) == 1


def test_a_group_without_capacity_says_so_and_launches_when_there_is_some(yard: RunningYard) -> None:
    switch(yard, no_capacity=100)
    group(yard, LARGE, 2)
    assert instances(yard) == []
    newest = activities(yard)[0]
    assert newest["StatusCode"] == "Failed"
    assert f"do not have sufficient {LARGE} capacity" in newest["StatusMessage"]
    assert newest["StatusMessage"].endswith("Launching EC2 instance failed.")
    switch(yard, no_capacity=0)
    deadline = time.monotonic() + PATIENCE_S
    while len(instances(yard)) < 2:
        assert time.monotonic() < deadline, "the group never tried again"
    assert [activity["StatusCode"] for activity in activities(yard)[:2]] == ["Successful", "Failed"]


def test_a_scripted_lack_of_capacity_reaches_groups_too(yard: RunningYard) -> None:
    script(yard, Fault(service="ec2", operation="RunInstances", kind=FaultKind.INSUFFICIENT_CAPACITY))
    group(yard, SMALL, 2)
    assert len(instances(yard)) == 1


def test_activities_come_in_pages_as_aws_lists_them(yard: RunningYard) -> None:
    scaling = yard.client("autoscaling")
    group(yard, SMALL, 1)
    for nodes in (2, 3):
        scaling.set_desired_capacity(AutoScalingGroupName="nodes", DesiredCapacity=nodes)
    first = scaling.describe_scaling_activities(AutoScalingGroupName="nodes", MaxRecords=2)
    rest = scaling.describe_scaling_activities(AutoScalingGroupName="nodes", NextToken=first["NextToken"])
    assert (len(first["Activities"]), len(rest["Activities"]), "NextToken" in rest) == (2, 1, False)


def test_an_instance_is_pending_until_its_launch_is_over(yard: RunningYard) -> None:
    switch(yard, launch_delay=600)
    (made,) = yard.client("ec2").run_instances(**run(yard, SMALL))["Instances"]
    group(yard, SMALL, 1)
    assert state(yard, made["InstanceId"]) == "pending"
    assert state(yard, instances(yard)[0]["InstanceId"]) == "pending"
    yard.client("ec2").terminate_instances(InstanceIds=[made["InstanceId"]])
    assert state(yard, made["InstanceId"]) == "terminated"


def test_a_pending_instance_runs_before_the_longest_time_is_over(yard: RunningYard) -> None:
    switch(yard, launch_delay=0.2)
    (made,) = yard.client("ec2").run_instances(**run(yard, SMALL))["Instances"]
    yard.client("ec2").get_waiter("instance_running").wait(
        InstanceIds=[made["InstanceId"]], WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )


@pytest.mark.parametrize("host", ["nobody", ""])
def test_only_a_host_can_be_interrupted(yard: RunningYard, host: str) -> None:
    with pytest.raises(SlipwayError, match="matches 0 hosts"):
        control(yard, "POST", "/interrupt-host", {"host": host})


def test_a_terminated_instance_takes_the_interface_along_that_it_was_launched_with(yard: RunningYard) -> None:
    ec2 = yard.client("ec2")
    (made,) = ec2.run_instances(**run(yard, SMALL))["Instances"]
    (interface,) = made["NetworkInterfaces"]
    ec2.terminate_instances(InstanceIds=[made["InstanceId"]])
    assert interface["NetworkInterfaceId"] not in str(ec2.describe_network_interfaces()["NetworkInterfaces"])
