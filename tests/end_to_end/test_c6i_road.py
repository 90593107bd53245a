"""The road to c6i from the start: no AMI, then one baked from the deployed stack, then the page's commands.

A bake takes minutes, so there is only one; it does everything that needs no AWS hardware.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.words.images.amis import ami_parameter, bakery_parameter, decode_bakery
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.imagebuilder.machine.base import reason_for_no_base
from slipway.yard.state import MACHINE_IMAGES
from tests.end_to_end.conftest import Finished, Shell
from tests.end_to_end.roads import BAKE_SECONDS, PlayedRoad, split_at

pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

IMAGE = "cpu-mpi"
BAKE, DEPLOY = f"slipway image bake {IMAGE} --wait", "cdk deploy c6i"
READY_SECONDS = 120.0  # to join, and to answer an all-reduce


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedDeployment:
    """Hold what a deployment without an AMI printed and left."""

    said: Finished
    resources: list[Any]
    endpoints: list[Any]


@pytest.fixture(scope="module")
def refused(fresh_shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> RefusedDeployment:
    """Deploy without an AMI, as the first thing in this yard."""
    assembly = str(tmp_path_factory.mktemp("assembly"))
    deploy = ("cdk", "deploy", "c6i", "--require-approval", "never", "--output", assembly)
    said = fresh_shell.run(*deploy)
    cloudformation = fresh_shell.client("cloudformation")
    names = [stack["StackName"] for stack in cloudformation.describe_stacks()["Stacks"]]
    found = [cloudformation.list_stack_resources(StackName=name) for name in names if name.startswith("c6i")]
    return RefusedDeployment(
        said=said,
        resources=[resource for stack in found for resource in stack["StackResourceSummaries"]],
        endpoints=fresh_shell.client("ec2").describe_vpc_endpoints()["VpcEndpoints"],
    )


@pytest.fixture(scope="module")
def road(
    refused: RefusedDeployment, fresh_shell: Shell, tmp_path_factory: pytest.TempPathFactory
) -> PlayedRoad:
    """Run the page's commands up to its bake."""
    found = PlayedRoad.at("c6i", fresh_shell, tmp_path_factory.mktemp("own"), bakes=True)
    before, _ = split_at(found.commands(), BAKE)
    found.play(before)
    return found


@pytest.fixture(scope="module")
def deployed(road: PlayedRoad) -> Shell:
    return road.yard


@pytest.fixture(scope="module")
def baked(deployed: Shell) -> dict[str, Any]:
    if reason := reason_for_no_base():
        pytest.skip(reason)
    return dict(deployed.data(*BAKE.split(), "--json", timeout_s=BAKE_SECONDS))


@pytest.fixture(scope="module")
def folder_of_images(deployed: Shell) -> Path:
    return Path(deployed.environment["SLIPWAY_YARD_HOME"]) / MACHINE_IMAGES


def test_a_cluster_whose_ami_is_missing_is_refused_before_anything_of_it_stands(
    refused: RefusedDeployment,
) -> None:
    assert refused.said.status != 0
    assert f"/slipway/amis/{IMAGE}/id" in refused.said.text
    assert (refused.resources, refused.endpoints) == ([], [])


def parameter(shell: Shell, name: str) -> str:
    return str(shell.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])


def test_the_ami_is_published_with_its_manifest(deployed: Shell, baked: dict[str, Any]) -> None:
    bakery = decode_bakery(parameter(deployed, bakery_parameter(IMAGE)), parameter="bakery")
    assert parameter(deployed, ami_parameter(IMAGE)) == baked["ami_id"]
    manifest = json.loads(parameter(deployed, bakery.manifest_parameter))
    assert (manifest["ami_id"], manifest["lock_digest"]) == (baked["ami_id"], bakery.lock_digest)
    assert manifest["pytorch"] == baked["versions"]["pytorch"]


def test_only_what_needs_aws_is_left_out_and_it_is_named(baked: dict[str, Any]) -> None:
    names = [each.partition(":")[0].rpartition(".")[2] for each in baked["left_out"]]
    assert names
    assert all(name.endswith(("OnHardware", "FromVendor")) for name in names), names


def test_the_root_file_system_holds_what_the_nodes_run(folder_of_images: Path, baked: dict[str, Any]) -> None:
    folder = folder_of_images / baked["ami_id"] / "root"
    for path in ("opt/slipway/venv/bin/slipway-node", "usr/bin/mpirun", "usr/sbin/sshd"):
        assert (folder / path).exists(), path
    assert "PasswordAuthentication no" in (folder / "etc/ssh/sshd_config.d/10-slipway.conf").read_text()
    assert not list(folder.glob("etc/ssh/ssh_host_*")), "two machines would have the same host key"
    assert list(folder.glob("tmp/*")) == []


def test_the_image_is_listed_as_in_use_and_preflight_finds_it_sound(
    deployed: Shell, baked: dict[str, Any]
) -> None:
    (image,) = [
        each for each in deployed.data("slipway", "image", "list", IMAGE, "--json") if each["lock_digest"]
    ]
    assert (image["ami_id"], image["state"]) == (baked["ami_id"], "in use")
    done = deployed.run("slipway", "preflight", "c6i", "--json")
    verdicts = {load["check"]: load["outcome"] for load in json.loads(done.text[: done.text.rindex("]") + 1])}
    assert (verdicts["machine image"], verdicts["locked versions"]) == ("ok", "ok")


def test_machines_of_c6i_boot_from_it_and_are_ready(road: PlayedRoad, baked: dict[str, Any]) -> None:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so no host can have files of its own")
    road.play([DEPLOY])
    shell = road.yard
    assert shell.client("ec2").describe_instances()["Reservations"] == [], "a deployment starts no machine"
    shell.client("autoscaling").set_desired_capacity(AutoScalingGroupName="c6i", DesiredCapacity=2)
    machines = shell.client("ec2").describe_instances()["Reservations"]
    assert {instance["ImageId"] for found in machines for instance in found["Instances"]} == {baked["ami_id"]}
    deadline = time.monotonic() + READY_SECONDS
    while sum(bool(each["answered"]) for each in status(shell)) < 2:
        assert time.monotonic() < deadline, shell.must("slipway", "yard", "logs")
    hosts = shell.data("slipway", "yard", "hosts", "--json")
    assert {host["root"] for host in hosts} == {"machine image"}


def test_the_commands_of_the_page_work_in_their_order(road: PlayedRoad) -> None:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so four machines have no networks of their own")
    _, after = split_at(road.commands(), BAKE)
    road.play(after)


def status(shell: Shell) -> list[dict[str, Any]]:
    return list(shell.data("slipway", "status", "--on", "c6i", "--nodes", "--json"))
