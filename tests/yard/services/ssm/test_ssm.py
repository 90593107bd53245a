"""The yard has AWS's public parameters, and `yard kill-node JOB NODE` kills the right node of an MPI job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare.machine_images import MachineImage, pinned_parent
from slipway.jobs.words.images.aws_images import AWS_AMIS
from slipway.yard.machines.hosts import host_store, reconciler
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.services.ssm import run_command
from slipway.yard.services.ssm.mpi_jobs import kill_node_of_command
from slipway.yard.services.ssm.public_parameters import CANONICAL, owned_names
from slipway.yard.services.ssm.run_command import Command, Invocation
from tests.yard.asking import refusal
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

JOB = "train-0123456789ab"


@dataclass(slots=True)
class Killed:
    names: list[str] = field(default_factory=list)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Killed]:
    """Make three hosts of a cluster and one of another; a job runs on the oldest of the three."""
    seen = Killed()
    monkeypatch.setattr(reconciler, "kill", lambda host: seen.names.append(host.instance.id))
    monkeypatch.setattr(host_store, "hosts", {})
    for place, (name, cluster) in enumerate((("i-3", "c"), ("i-1", "c"), ("i-2", "c"), ("i-9", "other"))):
        launched_at = f"2026-01-01T00:00:01.{9 - int(name[-1])}" if name != "i-3" else "2026-01-01T00:00:02.0"
        instance = SimpleNamespace(id=name, cluster=cluster, launched_at=launched_at)
        host = Host(instance=cast(Any, instance), number=place, root="", state="running")
        host_store.hosts[name] = host
    command = Command(region="us-east-1", sent={"Comment": JOB}, steps=(), version="1", log_group="")
    command.invocations["i-1"] = Invocation(command=command, instance="i-1", outcomes=[], status="InProgress")
    run_command.commands[command.id] = command
    yield seen
    run_command.reset()


@pytest.mark.parametrize(("node", "host"), [(0, "i-1"), (1, "i-2"), (2, "i-3")])
def test_nodes_are_numbered_by_the_second_of_their_start_and_then_by_their_ids(
    killed: Killed, node: int, host: str
) -> None:
    """A job numbers them so: EC2 tells it no fraction of a second."""
    assert kill_node_of_command("train", node) == JOB
    assert killed.names == [host]


def test_a_node_that_the_job_does_not_have_is_refused(killed: Killed) -> None:
    with pytest.raises(ValueError, match=f"job {JOB} has no node 3; it has 0 to 2"):
        kill_node_of_command(JOB, 3)
    assert killed.names == []


def test_a_job_of_another_service_is_left_to_it(killed: Killed) -> None:
    assert kill_node_of_command("elsewhere", 0) is None
    (command,) = run_command.commands.values()
    command.invocations["i-1"].status = "Success"
    assert kill_node_of_command(JOB, 0) is None
    assert killed.names == []


# AWS's public parameters of AMIs exist from the start, and their AMIs can be launched.
UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
DLAMI = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"


def test_every_family_names_parameters_once() -> None:
    names = [name for _, name in owned_names()]
    assert UBUNTU in names
    assert DLAMI in names
    assert len(names) == len(set(names))


def test_a_public_parameter_names_an_ami_of_its_owner(yard: RunningYard) -> None:
    found = yard.client("ssm").get_parameter(Name=UBUNTU)["Parameter"]
    ec2 = yard.client("ec2")
    (image,) = ec2.describe_images(ImageIds=[found["Value"]])["Images"]
    assert (image["OwnerId"], image["Architecture"], image["State"]) == (CANONICAL, "x86_64", "available")
    assert ec2.describe_images(Owners=["self"])["Images"] == []


@pytest.mark.parametrize("image", MACHINE_IMAGES, ids=lambda image: image.name)
def test_the_release_that_a_lock_pins_is_there(yard: RunningYard, image: MachineImage) -> None:
    name = pinned_parent(image).removeprefix("ssm:")
    found = yard.client("ssm").get_parameter(Name=name)["Parameter"]
    (ami,) = yard.client("ec2").describe_images(ImageIds=[found["Value"]])["Images"]
    assert (ami["OwnerId"], ami["Architecture"]) == (CANONICAL, "x86_64")


@pytest.mark.parametrize("name", AWS_AMIS)
def test_clusters_find_awss_own_amis_without_a_command(yard: RunningYard, name: str) -> None:
    """Nobody bakes or registers them, as on AWS."""
    known = AWS_AMIS[name]
    for architecture, parameter in known.parameters.items():
        found = yard.client("ssm").get_parameter(Name=parameter)["Parameter"]
        (image,) = yard.client("ec2").describe_images(ImageIds=[found["Value"]])["Images"]
        assert (image["Architecture"], image["OwnerId"]) == (architecture, known.owner)
        assert image["RootDeviceName"] == known.root_device


def test_a_public_parameter_is_listed_below_its_path_and_not_as_the_accounts_own(yard: RunningYard) -> None:
    ssm = yard.client("ssm")
    ssm.put_parameter(Name="/mine/a", Value="1", Type="String")
    ssm.get_parameter(Name=UBUNTU)
    listed = ssm.describe_parameters()["Parameters"]
    assert [one["Name"] for one in listed] == ["/mine/a"]
    own = ssm.get_parameters_by_path(Path="/", Recursive=True)["Parameters"]
    assert [one["Name"] for one in own] == ["/mine/a"]
    below = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64"
    (found,) = ssm.get_parameters_by_path(Path=below, Recursive=True)["Parameters"]
    assert found["Name"] == UBUNTU


def test_a_template_may_ask_for_a_version_of_it(yard: RunningYard) -> None:
    newest = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.1-x86_64"
    image = {"ImageId": f"{{{{resolve:ssm:{newest}:75}}}}", "InstanceType": "c6i.large"}
    template = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": image}}
    made = Stacks(yard).create("pinned", {"Resources": {"Template": template}})
    found = yard.client("ec2").describe_launch_template_versions(LaunchTemplateId=made["Template"])
    (data,) = [version["LaunchTemplateData"] for version in found["LaunchTemplateVersions"]]
    assert data["ImageId"] == yard.client("ssm").get_parameter(Name=newest)["Parameter"]["Value"]


@pytest.mark.parametrize("name", [UBUNTU, DLAMI])
def test_a_template_may_ask_for_it_by_its_type(yard: RunningYard, name: str) -> None:
    kind = "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>"
    made = Stacks(yard).create(
        "image",
        {
            "Parameters": {"Image": {"Type": kind, "Default": name}},
            "Resources": {
                "Template": {
                    "Type": "AWS::EC2::LaunchTemplate",
                    "Properties": {
                        "LaunchTemplateData": {"ImageId": {"Ref": "Image"}, "InstanceType": "c6i.large"}
                    },
                }
            },
        },
    )
    ec2 = yard.client("ec2")
    (version,) = ec2.describe_launch_template_versions(LaunchTemplateId=made["Template"])[
        "LaunchTemplateVersions"
    ]
    wanted = yard.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
    assert version["LaunchTemplateData"]["ImageId"] == wanted


def test_one_that_nobody_listed_is_not_there(yard: RunningYard) -> None:
    said = refusal(yard.client("ssm").get_parameter, Name="/aws/service/canonical/ubuntu/server/9/x")
    assert said["Code"] == "ParameterNotFound"


def test_a_runbook_runs_in_the_version_that_is_asked_for(yard: RunningYard) -> None:
    ssm = yard.client("ssm")
    wait = {"name": "Wait", "action": "aws:sleep", "inputs": {"Duration": "PT1S"}}
    first = {"schemaVersion": "0.3", "mainSteps": [wait]}
    ssm.create_document(Name="versions", DocumentType="Automation", Content=json.dumps(first))
    second = json.dumps({**first, "description": "two"})
    ssm.update_document(Name="versions", DocumentVersion="$LATEST", Content=second)
    ran = []
    for version in ("$DEFAULT", "$LATEST", "2"):
        started = ssm.start_automation_execution(DocumentName="versions", DocumentVersion=version)
        which = {"AutomationExecutionId": started["AutomationExecutionId"]}
        ran.append(ssm.get_automation_execution(**which)["AutomationExecution"]["DocumentVersion"])
    assert ran == ["1", "2", "2"]
