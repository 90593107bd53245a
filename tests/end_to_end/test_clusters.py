"""The declared clusters, deployed into the yard by the real CDK CLI and read back through the AWS API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Shell

pytestmark = pytest.mark.cdk

STACKS = ["dl1", "dl1-images", "dl1-network", "dl1-observability", "dl1-storage"]
WITHOUT_DATA = ("-c", "dl1.keep_data=false")
APPROVED = ("--require-approval", "never", "--concurrency", "4")


def stacks(shell: Shell) -> list[str]:
    found = shell.client("cloudformation").describe_stacks()["Stacks"]
    return sorted(stack["StackName"] for stack in found if stack["StackName"].startswith("dl1"))


@pytest.fixture(scope="module")
def dl1(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, Path]]:
    assembly = tmp_path_factory.mktemp("assembly")
    shell.must("cdk", "deploy", "--all", *APPROVED, "--output", str(assembly), *WITHOUT_DATA)
    yield shell, assembly
    shell.must("cdk", "destroy", "--all", "--force", "--output", str(assembly), *WITHOUT_DATA)
    assert stacks(shell) == []


def test_every_stack_of_the_cluster_is_there(dl1: tuple[Shell, Path]) -> None:
    shell, _ = dl1
    assert stacks(shell) == STACKS


def test_the_nodes_get_one_efa_interface_on_each_of_four_network_cards(dl1: tuple[Shell, Path]) -> None:
    shell, _ = dl1
    versions = shell.client("ec2").describe_launch_template_versions(Versions=["$Latest"])
    interfaces = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]["NetworkInterfaces"]
    assert [interface["InterfaceType"] for interface in interfaces] == ["efa"] * 4
    assert [interface["NetworkCardIndex"] for interface in interfaces] == [0, 1, 2, 3]
    assert [interface["DeviceIndex"] for interface in interfaces] == [0, 1, 1, 1]


def test_the_compute_environment_starts_from_zero_in_one_zone(dl1: tuple[Shell, Path]) -> None:
    shell, _ = dl1
    (environment,) = shell.client("batch").describe_compute_environments()["computeEnvironments"]
    resources = environment["computeResources"]
    assert (resources["minvCpus"], resources["maxvCpus"]) == (0, 16 * 96)
    assert len(resources["subnets"]) == 1
    assert resources["placementGroup"]


def test_the_target_record_says_where_to_submit(dl1: tuple[Shell, Path]) -> None:
    shell, _ = dl1
    (target,) = shell.data("slipway", "targets", "--json")
    queues = shell.client("batch").describe_job_queues()["jobQueues"]
    assert target["name"] == "dl1"
    assert target["queue_arn"] == queues[0]["jobQueueArn"]


def test_one_setting_is_changed_without_replacing_the_cluster(dl1: tuple[Shell, Path]) -> None:
    shell, assembly = dl1
    batch = shell.client("batch")
    (before,) = batch.describe_compute_environments()["computeEnvironments"]
    fewer = ("-c", "dl1.max_nodes=4")
    shell.must("cdk", "deploy", "dl1", *APPROVED, "--output", str(assembly), *WITHOUT_DATA, *fewer)
    (after,) = batch.describe_compute_environments()["computeEnvironments"]
    assert after["computeEnvironmentArn"] == before["computeEnvironmentArn"]
    assert after["computeResources"]["maxvCpus"] == 4 * 96


def test_a_wrong_setting_is_refused_before_anything_is_created(shell: Shell, tmp_path: Path) -> None:
    wrong = ("-c", "dl1.max_node=4", "-c", "dl1.zone=us-west-2a", "-c", "dl1.market=spot")
    done = shell.run("cdk", "deploy", "--all", *APPROVED, "--output", str(tmp_path), *wrong)
    errors = [line for line in done.text.splitlines() if line.startswith("error: ")]
    assert done.status != 0
    assert len(errors) >= 3
    assert any("max_nodes" in line for line in errors)
    assert "Traceback" not in done.text
