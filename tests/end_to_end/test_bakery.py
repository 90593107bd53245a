"""The machine image of c6i, baked from the deployed stack: all that needs no AWS hardware, for real."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.core.images.amis import ami_parameter, bakery_parameter, decode_bakery
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.imagebuilder.machine.base import reason_for_no_base
from slipway.yard.state import MACHINE_IMAGES
from tests.end_to_end.conftest import Shell

pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.build]

IMAGE = "cpu-mpi"
STACK = f"slipway-bakery-{IMAGE}"
NETWORK = "slipway-bakery-network-us-east-1"
READY_SECONDS = 120.0  # to join, and to answer an all-reduce
BAKE_SECONDS = 1200  # a Debian, 150 packages, 200 MB of wheels, and two imports of torch


IN_MEMORY_GIB, MEMORY_GIB = 4, 8  # of images, and of what has to be free for that


@pytest.fixture(scope="module")
def folder_of_images(shell: Shell) -> Iterator[Path]:
    """In memory where there is enough: to delete an image's 50 000 files from a disk takes up to a minute."""
    folder = Path(shell.environment["SLIPWAY_YARD_HOME"]) / MACHINE_IMAGES
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    with ExitStack() as afterwards:
        if os.geteuid() == 0 and free >= MEMORY_GIB:
            folder.mkdir(exist_ok=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={IN_MEMORY_GIB}g,mode=700", "images", str(folder)]
            if subprocess.run(mount, check=False).returncode == 0:
                afterwards.callback(subprocess.run, ["umount", str(folder)], check=True)
        yield folder


@pytest.fixture(scope="module")
def deployed(
    shell: Shell, folder_of_images: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    if reason := reason_for_no_base():
        pytest.skip(reason)
    assembly = str(tmp_path_factory.mktemp("assembly"))
    # The gate looks at every template of every stack; here it would only take time.
    deploy = ("env", "CDK_VALIDATION=false", "cdk", "deploy", STACK, "--require-approval", "never")
    shell.must(*deploy, "--output", assembly)
    yield shell
    cloudformation = shell.client("cloudformation")
    for name in (STACK, NETWORK):
        cloudformation.delete_stack(StackName=name)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 1})


@pytest.fixture(scope="module")
def baked(deployed: Shell) -> dict[str, Any]:
    return dict(deployed.data("slipway", "bake", IMAGE, "--wait", "--json", timeout_s=BAKE_SECONDS))


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
    (image,) = [each for each in deployed.data("slipway", "amis", IMAGE, "--json") if each["lock_digest"]]
    assert (image["ami_id"], image["state"]) == (baked["ami_id"], "in use")
    done = deployed.run("slipway", "preflight", "c6i", "--json")
    verdicts = {load["check"]: load["outcome"] for load in json.loads(done.text[: done.text.rindex("]") + 1])}
    assert (verdicts["machine image"], verdicts["locked versions"]) == ("ok", "ok")


def test_machines_of_c6i_boot_from_it_and_are_ready(
    deployed: Shell, baked: dict[str, Any], tmp_path: Path
) -> None:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so no host can have files of its own")
    deploy = ("env", "CDK_VALIDATION=false", "cdk", "deploy", "c6i", "--require-approval", "never")
    deployed.must(*deploy, "--output", str(tmp_path), "-c", "c6i.max_nodes=2", "-c", "c6i.keep_data=false")
    assert deployed.client("ec2").describe_instances()["Reservations"] == [], "a deployment starts no machine"
    deployed.client("autoscaling").set_desired_capacity(AutoScalingGroupName="c6i", DesiredCapacity=2)
    machines = deployed.client("ec2").describe_instances()["Reservations"]
    assert {instance["ImageId"] for found in machines for instance in found["Instances"]} == {baked["ami_id"]}
    deadline = time.monotonic() + READY_SECONDS
    while sum(bool(each["answered"]) for each in status(deployed)) < 2:
        assert time.monotonic() < deadline, deployed.must("slipway", "yard", "logs")
    hosts = deployed.data("slipway", "yard", "hosts", "--json")
    assert {host["root"] for host in hosts} == {"machine image"}


def status(shell: Shell) -> list[dict[str, Any]]:
    return list(shell.data("slipway", "status", "--on", "c6i", "--nodes", "--json"))
