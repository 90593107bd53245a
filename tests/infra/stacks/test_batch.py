"""The DL1 cluster on AWS Batch keeps its promises to a job and its owner."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.infra.declare.types import FileSystem, Market
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import BatchTarget, decode_target
from tests.infra.synthesis import CLUSTER, OTHER, Properties, as_text, of_type, only, synthesize, templates_of

RESERVATION = "cr-0123456789abcdef0"


def job(**changes: Any) -> Properties:
    return only(templates_of(**changes).compute, "AWS::Batch::JobDefinition")


def container(**changes: Any) -> Properties:
    (node_range,) = job(**changes)["NodeProperties"]["NodeRangeProperties"]
    found: Properties = node_range["Container"]
    return found


def pool(**changes: Any) -> Properties:
    return only(templates_of(**changes).compute, "AWS::Batch::ComputeEnvironment")


def launch(**changes: Any) -> Properties:
    data: Properties = only(templates_of(**changes).compute, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    return data


def test_a_job_may_ask_for_any_number_of_whole_nodes_and_no_more_memory_than_registers() -> None:
    nodes = job()["NodeProperties"]
    assert (nodes["MainNode"], nodes["NumNodes"]) == (0, 16)
    assert [each["TargetNodes"] for each in nodes["NodeRangeProperties"]] == ["0:"]
    amounts = {each["Type"]: int(each["Value"]) for each in container()["ResourceRequirements"]}
    assert amounts == {"VCPU": 96, "MEMORY": 754462}
    assert amounts["MEMORY"] <= 0.96 * 768 * 1024


# A job that asks for more is never placed. Sources: job_memory_mib of jobs/words/catalogue/instances.py.
@pytest.mark.parametrize(
    ("type_", "registered"), [("c6i.xlarge", 7_679), ("r5d.xlarge", 31_672), ("trn1.32xlarge", 507_821)]
)
def test_memory_stays_under_what_was_measured_to_register(type_: str, registered: int) -> None:
    asked = instance_type(type_).job_memory_mib
    assert 0.95 * registered < asked < registered


def test_a_container_pins_memory_and_shares_much_of_it_without_privileges() -> None:
    found = container()
    limits = {ulimit["Name"]: (ulimit["SoftLimit"], ulimit["HardLimit"]) for ulimit in found["Ulimits"]}
    assert limits == {"memlock": (-1, -1), "nofile": (65536, 65536)}
    assert found["LinuxParameters"]["SharedMemorySize"] == 64000
    assert found["LinuxParameters"]["InitProcessEnabled"] is True
    assert found["Privileged"] is False


def test_gaudi_uses_the_network_cards_directly_where_it_has_efa() -> None:
    environment = {each["Name"]: each["Value"] for each in container()["Environment"]}
    assert environment["HABANA_VISIBLE_DEVICES"] == "all"
    assert environment["HCCL_SOCKET_IFNAME"] == "eth0"
    assert environment["FI_EFA_USE_DEVICE_RDMA"] == environment["RDMAV_FORK_SAFE"] == "1"
    assert "HCCL_OVER_OFI" not in environment
    names = {each["Name"] for each in container(efa_interfaces=0)["Environment"]}
    assert not {"FI_EFA_USE_DEVICE_RDMA", "RDMAV_FORK_SAFE", "FI_PROVIDER"} & names


def test_only_exit_85_a_lost_machine_and_a_failed_pull_are_tried_again() -> None:
    retry = job(**OTHER)["RetryStrategy"]
    assert retry["Attempts"] == 5
    assert retry["EvaluateOnExit"] == [
        {"Action": "RETRY", "OnExitCode": "85"},
        {"Action": "RETRY", "OnStatusReason": "Host EC2*"},
        {"Action": "RETRY", "OnReason": "CannotPullContainerError*"},
        {"Action": "EXIT", "OnReason": "*"},
    ]


def test_a_job_ends_after_the_declared_hours() -> None:
    assert job(**OTHER)["Timeout"] == {"AttemptDurationSeconds": 3 * 3600}


def test_a_node_that_shuts_itself_down_is_gone_and_not_stopped() -> None:
    assert launch()["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_a_job_that_cannot_start_is_cancelled_for_every_reason_after_the_declared_time() -> None:
    queue = only(templates_of(**OTHER).compute, "AWS::Batch::JobQueue")
    limits = queue["JobStateTimeLimitActions"]
    assert {limit["Reason"] for limit in limits} == {
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    }
    assert {(limit["Action"], limit["State"], limit["MaxTimeSeconds"]) for limit in limits} == {
        ("CANCEL", "RUNNABLE", 1200)
    }


def test_the_compute_environment_starts_from_nothing_and_takes_every_node() -> None:
    found = pool()
    resources = found["ComputeResources"]
    assert (resources["MinvCpus"], resources["MaxvCpus"]) == (0, 16 * 96)
    assert resources["InstanceTypes"] == ["dl1.24xlarge"]
    assert (resources["Type"], resources["AllocationStrategy"]) == ("EC2", "BEST_FIT_PROGRESSIVE")
    assert found["ReplaceComputeEnvironment"] is False
    assert found["UpdatePolicy"]["TerminateJobsOnUpdate"] is False
    assert not {"ComputeEnvironmentName", "ServiceRole"} & set(found)
    assert not {"SecurityGroupIds", "Ec2KeyPair", "ImageId"} & set(resources)
    (template,) = of_type(templates_of().compute, "AWS::EC2::LaunchTemplate")
    newest = {"Fn::GetAtt": [template, "LatestVersionNumber"]}
    assert resources["LaunchTemplate"] == {"LaunchTemplateId": {"Ref": template}, "Version": newest}


def test_the_machine_image_comes_from_the_declared_parameter() -> None:
    template = templates_of(**OTHER).compute
    assert template["Parameters"]["NodeImage"]["Default"] == "/team/amis/gaudi"
    assert template["Parameters"]["NodeImage"]["Type"] == "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>"
    (found,) = pool(**OTHER)["ComputeResources"]["Ec2Configuration"]
    assert found["ImageIdOverride"] == {"Ref": "NodeImage"}


def test_a_node_asks_for_tokens_encrypts_its_disk_and_has_no_key() -> None:
    data = launch(**OTHER)
    assert data["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpPutResponseHopLimit": 1,
        "HttpTokens": "required",
    }
    (disk,) = data["BlockDeviceMappings"]
    assert disk["Ebs"] == {
        "DeleteOnTermination": True,
        "Encrypted": True,
        "Iops": 3000,
        # If the account's default is a customer's key, Auto Scaling lacks a grant, and nodes die at launch.
        "KmsKeyId": "alias/aws/ebs",
        "Throughput": 500,
        "VolumeSize": 300,
        "VolumeType": "gp3",
    }
    assert not {"KeyName", "SecurityGroupIds"} & set(data)


BLOCK = {"instance_type": "p4d.24xlarge", "market": Market.CAPACITY_BLOCK, "reservation_id": RESERVATION}
NAMED = {"CapacityReservationTarget": {"CapacityReservationId": RESERVATION}}


@pytest.mark.parametrize(
    ("changes", "specification", "is_block"),
    [
        ({}, {"CapacityReservationPreference": "none"}, False),
        ({"market": Market.OPEN_RESERVATION}, {"CapacityReservationPreference": "open"}, False),
        ({"market": Market.TARGETED_RESERVATION, "reservation_id": RESERVATION}, NAMED, False),
        (BLOCK, NAMED, True),
    ],
    ids=["on demand leaves others' alone", "open uses what matches", "targeted names its own", "block"],
)
def test_a_market_says_which_reservation_is_used_and_a_block_has_no_placement_group(
    changes: dict[str, Any], specification: Properties, is_block: bool
) -> None:
    data = launch(**changes)
    assert data["CapacityReservationSpecification"] == specification
    options = {"MarketType": "capacity-block"} if is_block else None
    assert data.get("InstanceMarketOptions") == options
    assert ("PlacementGroup" in pool(**changes)["ComputeResources"]) != is_block


def test_spot_is_refused_even_without_the_declarations_check() -> None:
    with pytest.raises(SlipwayError, match="does not run multi-node jobs on Spot"):
        templates_of(market=Market.SPOT)


def test_a_job_may_not_touch_what_images_are_built_from() -> None:
    policies = of_type(templates_of().compute, "AWS::IAM::ManagedPolicy")
    (policy,) = [each for name, each in policies.items() if name.startswith("AccessJob")]
    objects = [
        as_text(resource)
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Sid"] in ("ReadObjects", "WriteObjects")
        for resource in statement["Resource"]
    ]
    assert set(objects) == {"<…>/code/*", "<…>/datasets/*", "<…>/jobs/*", "<…>/sources/*"}
    assert objects.count("<…>/sources/*") == 1, "read only"


@pytest.mark.parametrize("sort", FileSystem)
def test_the_target_tells_jobs_what_was_deployed_and_a_container_sees_what_its_node_mounts(
    sort: FileSystem,
) -> None:
    parameter = only(templates_of(file_system=sort).compute, "AWS::SSM::Parameter")
    found = container(file_system=sort)
    assert parameter["Name"] == "/slipway/targets/dl1"
    target = decode_target(as_text(parameter["Value"]), parameter="/slipway/targets/dl1")
    assert isinstance(target, BatchTarget)
    assert (target.name, target.region, target.zone) == ("dl1", "us-east-1", "us-east-1b")
    assert (target.instance_type, target.max_nodes) == ("dl1.24xlarge", 16)
    assert target.build_project == "dl1-images"
    shares = ("<…>", "/mnt/shared") if sort is not FileSystem.NONE else (None, None)
    assert (target.file_system_id, target.file_system_mount) == shares
    assert as_text(found["Image"]) == f"{target.repository_uri}:{target.image_tag}"
    mounts = [point["ContainerPath"] for point in found["MountPoints"]]
    hosts = [volume["Host"]["SourcePath"] for volume in found["Volumes"]]
    assert mounts == hosts == ["/scratch", *filter(None, shares[1:])]


@pytest.mark.parametrize("type_", ["dl1.24xlarge", "p5.48xlarge"])  # a bake of ours, AWS's own AMI
def test_nodes_mount_the_files_because_a_tasks_interface_is_in_a_group_that_may_not(type_: str) -> None:
    """ECS's agent would mount efsVolumeConfiguration in the task's network, in the VPC's default group."""
    found, told = container(instance_type=type_), as_text(launch(instance_type=type_)["UserData"])
    assert all("Host" in volume for volume in found["Volumes"])
    assert [point["ContainerPath"] for point in found["MountPoints"]] == ["/scratch", "/mnt/shared"]
    assert '"path": "/mnt/shared"' in told


def test_an_unchanged_cluster_synthesizes_to_the_same_template() -> None:
    assert json.dumps(synthesize(CLUSTER).all()) == json.dumps(templates_of().all())


def test_a_node_may_do_all_that_its_ecs_agent_does_when_it_joins_and_remove_no_other() -> None:
    """The agent registers with the tags that Batch gives it, and reads them from its instance."""
    allowed = {
        action: each
        for policy in of_type(templates_of().compute, "AWS::IAM::ManagedPolicy").values()
        for each in policy["PolicyDocument"]["Statement"]
        for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
    }
    assert {"ecs:RegisterContainerInstance", "ecs:ListTagsForResource", "ec2:DescribeTags"} <= allowed.keys()
    assert "ecs:DeregisterContainerInstance" not in allowed, "it could remove nodes of any cluster"
    assert allowed["ecs:TagResource"]["Condition"] == {
        "StringEquals": {"ecs:CreateAction": "RegisterContainerInstance"}
    }
