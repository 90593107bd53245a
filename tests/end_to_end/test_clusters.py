"""Two declared clusters, deployed into the yard by the real CDK CLI and read back through the AWS API.

They are deployed from a project of their own; what is refused, from the checkout, with all that it declares.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.yard.machines.isolation.tiers import best_tier
from tests.end_to_end.conftest import THROUGH_GATE, Shell
from tests.end_to_end.small_project import begin_small_project

pytestmark = pytest.mark.cdk

STACKS = ["dl1", "dl1-images", "dl1-network", "dl1-observability", "dl1-storage"]
MPI_STACKS = ["c6i", "c6i-network", "c6i-observability", "c6i-storage"]
NODES = 2
WITHOUT_DATA = ("-c", "dl1.keep_data=false", "-c", "c6i.keep_data=false", "-c", f"c6i.max_nodes={NODES}")
APPROVED = ("--require-approval", "never", "--concurrency", "4")
AS_A_JOB = (Path(__file__).parent / "apps" / "as_a_job.py").read_text(encoding="utf-8")
DENIED = ("secretsmanager:GetSecretValue", "sts:AssumeRole")
PATIENCE_SECONDS, LOOK_AGAIN_SECONDS = 120.0, 1.0


def stacks(shell: Shell) -> list[str]:
    found = shell.client("cloudformation").describe_stacks()["Stacks"]
    names = [stack["StackName"] for stack in found]
    return sorted(name for name in names if name.partition("-")[0] in ("dl1", "c6i"))


def launch_template(shell: Shell, cluster: str) -> dict[str, Any]:
    """The newest version of the cluster's, by its own tag on the disks of its nodes."""
    versions = shell.client("ec2").describe_launch_template_versions(Versions=["$Latest"])
    data = [version["LaunchTemplateData"] for version in versions["LaunchTemplateVersions"]]
    tag = {"Key": "slipway:cluster", "Value": cluster}
    (found,) = [each for each in data if tag in each["TagSpecifications"][0]["Tags"]]
    return dict(found)


def node_groups(shell: Shell) -> list[dict[str, Any]]:
    return list(shell.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"])


def machines(shell: Shell) -> list[dict[str, Any]]:
    filters = [
        {"Name": "tag:slipway:cluster", "Values": ["c6i"]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    answer = shell.client("ec2").describe_instances(Filters=filters)
    return [instance for reservation in answer["Reservations"] for instance in reservation["Instances"]]


def start_machines(shell: Shell) -> None:
    (group,) = node_groups(shell)
    shell.client("autoscaling").set_desired_capacity(
        AutoScalingGroupName=group["AutoScalingGroupName"], DesiredCapacity=NODES
    )
    here = [
        {"Name": "tag:slipway:cluster", "Values": ["c6i"]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},  # not those of a test before
    ]
    shell.client("ec2").get_waiter("instance_running").wait(Filters=here, WaiterConfig={"Delay": 1})


@pytest.fixture(scope="module")
def deployed(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, Path]]:
    assembly = tmp_path_factory.mktemp("assembly")
    project = begin_small_project(shell, tmp_path_factory.mktemp("project"), "dl1", "c6i")
    both = ("cdk", "deploy", "dl1", "c6i", *APPROVED, "--output", str(assembly), *WITHOUT_DATA)
    project.must(*THROUGH_GATE, *both)
    start_machines(project)  # as the first job does: a deployment starts none
    yield project, assembly
    shell.must("slipway", "cluster", "empty", "c6i", "--yes")  # its nodes wrote down that they are ready
    shell.must("cdk", "destroy", "dl1*", "c6i*", "--force", "--app", str(assembly))  # as written last
    assert stacks(shell) == []


def test_every_stack_of_every_cluster_is_there(deployed: tuple[Shell, Path]) -> None:
    shell, _ = deployed
    assert stacks(shell) == sorted(STACKS + MPI_STACKS)


def test_the_nodes_get_one_efa_interface_on_each_of_four_network_cards(deployed: tuple[Shell, Path]) -> None:
    shell, _ = deployed
    interfaces = launch_template(shell, "dl1")["NetworkInterfaces"]
    assert [interface["InterfaceType"] for interface in interfaces] == ["efa", *["efa-only"] * 3]
    assert [interface["NetworkCardIndex"] for interface in interfaces] == [0, 1, 2, 3]
    assert [interface["DeviceIndex"] for interface in interfaces] == [0, 0, 0, 0]


def test_the_compute_environment_starts_from_zero_in_one_zone(deployed: tuple[Shell, Path]) -> None:
    shell, _ = deployed
    (environment,) = shell.client("batch").describe_compute_environments()["computeEnvironments"]
    resources = environment["computeResources"]
    assert (resources["minvCpus"], resources["maxvCpus"]) == (0, 16 * 96)
    assert len(resources["subnets"]) == 1
    assert resources["placementGroup"]


def test_the_target_record_says_where_to_submit(deployed: tuple[Shell, Path]) -> None:
    shell, _ = deployed
    targets = {target["name"]: target for target in shell.data("slipway", "cluster", "targets", "--json")}
    (queue,) = shell.client("batch").describe_job_queues()["jobQueues"]
    (group,) = node_groups(shell)
    assert targets["dl1"]["queue_arn"] == queue["jobQueueArn"]
    assert targets["c6i"]["node_group"] == group["AutoScalingGroupName"]
    documents = (targets["c6i"]["run_document"], targets["c6i"]["stop_document"])
    for name in documents:
        assert shell.client("ssm").describe_document(Name=name)["Document"]["Status"] == "Active"


def test_the_machines_are_equal_near_each_other_and_found_by_their_cluster(
    deployed: tuple[Shell, Path],
) -> None:
    shell, _ = deployed
    (group,) = node_groups(shell)
    assert [instance["LifecycleState"] for instance in group["Instances"]] == ["InService"] * NODES
    instances = machines(shell)
    assert {instance["InstanceId"] for instance in instances} == {
        instance["InstanceId"] for instance in group["Instances"]
    }
    assert {instance["Placement"]["GroupName"] for instance in instances} == {group["PlacementGroup"]}
    assert len({instance["SubnetId"] for instance in instances}) == 1
    assert not any(instance.get("PublicIpAddress") for instance in instances)
    options = launch_template(shell, "c6i")["CpuOptions"]
    assert options == {"CoreCount": 32, "ThreadsPerCore": 1}


def test_a_changed_machine_takes_no_node_away(deployed: tuple[Shell, Path]) -> None:
    shell, assembly = deployed
    before = {machine["InstanceId"] for machine in machines(shell)}
    larger = ("-c", "c6i.instance_type=c6i.32xlarge")
    only = ("--exclusively", "--output", str(assembly))
    shell.must("cdk", "deploy", "c6i", *APPROVED, *only, *WITHOUT_DATA, *larger)
    assert {machine["InstanceId"] for machine in machines(shell)} == before
    (interface,) = launch_template(shell, "c6i")["NetworkInterfaces"]
    assert interface["InterfaceType"] == "efa"
    (group,) = node_groups(shell)
    assert group["LaunchTemplate"]["Version"] == "2"


def test_clusters_tells_how_many_machines_run_and_what_they_cost(deployed: tuple[Shell, Path]) -> None:
    shell, _ = deployed
    rows = {row["name"]: row for row in shell.data("slipway", "cluster", "list", "--json")}
    assert rows["c6i"]["running_nodes"] == NODES
    assert rows["c6i"]["usd_per_hour_now"] == pytest.approx(NODES * 2.72)
    assert (rows["dl1"]["running_nodes"], rows["dl1"]["usd_per_hour_now"]) == (0, 0)


def test_one_setting_is_changed_without_replacing_the_cluster(deployed: tuple[Shell, Path]) -> None:
    shell, assembly = deployed
    batch = shell.client("batch")
    (before,) = batch.describe_compute_environments()["computeEnvironments"]
    fewer = ("-c", "dl1.max_nodes=4")
    shell.must("cdk", "deploy", "dl1", *APPROVED, "--output", str(assembly), *WITHOUT_DATA, *fewer)
    (after,) = batch.describe_compute_environments()["computeEnvironments"]
    assert after["computeEnvironmentArn"] == before["computeEnvironmentArn"]
    assert after["computeResources"]["maxvCpus"] == 4 * 96


def ready_host(shell: Shell) -> str:
    """Return a host of c6i, once it has said that it is ready for jobs."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for host in shell.data("slipway", "status", "--on", "c6i", "--nodes", "--json"):
            if host["answered"]:
                return str(host["name"])
        time.sleep(LOOK_AGAIN_SECONDS)
    pytest.fail("no host became ready")


def test_a_job_reaches_neither_the_cluster_s_secret_nor_the_node_s_role(
    deployed: tuple[Shell, Path],
) -> None:
    if best_tier().name != "root":
        pytest.skip("without root a host has one user, so nothing can be kept from its jobs")
    shell, _ = deployed
    shell.refused.update(DENIED)
    host = ready_host(shell)
    said = json.loads(shell.must("slipway", "yard", "ssh", host, "--", sys.executable, "-c", AS_A_JOB))
    assert "jobs-c6i" in said.pop("role")
    by_aws = ("the cluster's secret", "the node's role")
    assert {name: said.pop(name) for name in by_aws} == {
        by_aws[0]: "AccessDeniedException",
        by_aws[1]: "AccessDenied",
    }
    assert set(said.values()) == {"closed"}, said
    denied = shell.data("slipway", "yard", "denied", "--json")
    assert {row["action"] for row in denied} == set(DENIED)


def test_a_wrong_setting_is_refused_before_anything_is_created(shell: Shell, tmp_path: Path) -> None:
    wrong = ("-c", "dl1.max_node=4", "-c", "dl1.zone=us-west-2a", "-c", "dl1.market=spot")
    done = shell.run("cdk", "deploy", "--all", *APPROVED, "--output", str(tmp_path), *wrong)
    errors = [line for line in done.text.splitlines() if line.startswith("error: ")]
    assert done.status != 0
    assert len(errors) >= 3
    assert any("max_nodes" in line for line in errors)
    assert "Traceback" not in done.text
