"""What a DL1 cluster asks of Batch's resources."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.world import Made, World


def environment(world: World, **changes: Any) -> Made:
    resources = {**world.compute_resources(), **changes}
    return world.make(
        "AWS::Batch::ComputeEnvironment",
        Type="MANAGED",
        ReplaceComputeEnvironment=False,
        ComputeResources=resources,
    )


def described(world: World, made: Made) -> dict[str, Any]:
    batch = world.client("batch")
    (found,) = batch.describe_compute_environments(computeEnvironments=[made.id])["computeEnvironments"]
    return dict(found)


def test_an_unnamed_environment_without_a_role_gets_both(world: World) -> None:
    found = described(world, environment(world))
    assert found["computeEnvironmentName"].startswith("trial-ComputeEnvironment-")
    assert found["serviceRole"].endswith("/AWSServiceRoleForBatch")


def test_the_launch_template_keeps_its_explicit_version(world: World) -> None:
    template = described(world, environment(world))["computeResources"]["launchTemplate"]
    assert template == {"launchTemplateId": world.launch_template().id, "version": "1"}


def test_security_groups_may_come_from_the_launch_template_alone(world: World) -> None:
    resources = {
        name: value for name, value in world.compute_resources().items() if name != "SecurityGroupIds"
    }
    made = world.make("AWS::Batch::ComputeEnvironment", Type="MANAGED", ComputeResources=resources)
    assert not described(world, made)["computeResources"].get("securityGroupIds")


def test_more_nodes_are_allowed_in_place_and_a_rollback_takes_them_back(world: World) -> None:
    made = environment(world)
    old, before = made.properties, made.id
    made.update(ComputeResources={**old["ComputeResources"], "MaxvCpus": 384})
    assert (made.id, described(world, made)["computeResources"]["maxvCpus"]) == (before, 384)
    made.become(old)
    assert described(world, made)["computeResources"]["maxvCpus"] == 96


def test_a_new_template_version_reaches_the_environment_in_place(world: World) -> None:
    made = environment(world)
    template = world.launch_template()
    template.update(LaunchTemplateData={"InstanceType": "dl1.24xlarge"})
    version = {"LaunchTemplateId": template.id, "Version": template.attribute("LatestVersionNumber")}
    made.update(ComputeResources={**made.properties["ComputeResources"], "LaunchTemplate": version})
    assert described(world, made)["computeResources"]["launchTemplate"]["version"] == "2"


def test_a_queue_keeps_the_time_limits_of_job_states(world: World) -> None:
    limit = {
        "Action": "CANCEL",
        "MaxTimeSeconds": 3600,
        "Reason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "State": "RUNNABLE",
    }
    order = [{"ComputeEnvironment": world.compute_environment(), "Order": 1}]
    queue = world.make(
        "AWS::Batch::JobQueue", Priority=1, ComputeEnvironmentOrder=order, JobStateTimeLimitActions=[limit]
    )
    queue.update(JobStateTimeLimitActions=[{**limit, "MaxTimeSeconds": 7200}])
    (found,) = world.client("batch").describe_job_queues(jobQueues=[queue.id])["jobQueues"]
    assert [action["maxTimeSeconds"] for action in found["jobStateTimeLimitActions"]] == [7200]


def multinode(command: str) -> dict[str, Any]:
    container = {
        "Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/gaudi:1",
        "Command": [command],
        "InstanceType": "dl1.24xlarge",
        "ResourceRequirements": [{"Type": "MEMORY", "Value": "700000"}, {"Type": "VCPU", "Value": "96"}],
        "LinuxParameters": {"SharedMemorySize": 65536},
        "Ulimits": [{"Name": "memlock", "SoftLimit": -1, "HardLimit": -1}],
    }
    ranges = [{"TargetNodes": "0:", "Container": container}]
    return {"MainNode": 0, "NumNodes": 2, "NodeRangeProperties": ranges}


def test_a_multi_node_definition_keeps_its_open_range_of_nodes(world: World) -> None:
    made = world.make("AWS::Batch::JobDefinition", Type="multinode", NodeProperties=multinode("train"))
    (found,) = world.client("batch").describe_job_definitions(jobDefinitions=[made.id])["jobDefinitions"]
    (nodes,) = found["nodeProperties"]["nodeRangeProperties"]
    assert found["type"] == "multinode"
    assert nodes["targetNodes"] == "0:"
    assert nodes["container"]["ulimits"] == [{"name": "memlock", "softLimit": -1, "hardLimit": -1}]


def test_a_changed_definition_is_a_new_revision_and_the_old_one_is_closed(world: World) -> None:
    made = world.make("AWS::Batch::JobDefinition", Type="multinode", NodeProperties=multinode("train"))
    first = made.id
    made.update(NodeProperties=multinode("evaluate"))
    name = made.id.rpartition("/")[2].rpartition(":")[0]
    found = world.client("batch").describe_job_definitions(jobDefinitionName=name)["jobDefinitions"]
    assert {one["jobDefinitionArn"]: one["status"] for one in found} == {first: "INACTIVE", made.id: "ACTIVE"}
    assert made.id.endswith(":2")


def test_an_environment_that_no_node_survives_fails_with_batchs_reason(world: World) -> None:
    arm = world.client("ec2").register_image(Name="arm", Architecture="arm64")["ImageId"]
    images = [{"ImageType": "ECS_AL2023", "ImageIdOverride": arm}]
    with pytest.raises(ApiError, match="went INVALID with error: CLIENT_ERROR - The architecture 'x86_64'"):
        environment(world, Ec2Configuration=images)
