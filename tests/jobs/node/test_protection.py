"""While a job runs, no rule takes its nodes away; afterwards every node may go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.core.mpi_nodes import Member
from jobs.core.names import CLUSTER_TAG
from jobs.members import find_members
from jobs.node.protection import protect, release
from jobs.node.setting import Setup
from tests.jobs.conftest import yard, yard_process, yard_shell
from tests.yard.conftest import REGION, RunningYard

__all__ = ["yard", "yard_process", "yard_shell"]

SETUP = Setup(
    cluster="c6i",
    region=REGION,
    secret_arn="arn",
    bucket="b",
    file_system_mount=None,
    nodes=2,
    mpi="open-mpi",
    log_group="logs",
)


@pytest.fixture
def group(yard_shell: RunningYard) -> Iterator[RunningYard]:
    """Two nodes, as the stack makes them; when it is over they are gone."""
    ec2, scaling = yard_shell.client("ec2"), yard_shell.client("autoscaling")
    image = ec2.describe_images(Owners=["self"])["Images"][0]["ImageId"]
    data = {"ImageId": image, "InstanceType": "c6i.16xlarge"}
    made = ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)["LaunchTemplate"]
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="c6i",
        MinSize=0,
        MaxSize=2,
        DesiredCapacity=2,
        VPCZoneIdentifier=ec2.describe_subnets()["Subnets"][0]["SubnetId"],
        LaunchTemplate={"LaunchTemplateId": made["LaunchTemplateId"], "Version": "1"},
        Tags=[
            {
                "ResourceId": "c6i",
                "ResourceType": "auto-scaling-group",
                "Key": CLUSTER_TAG,
                "Value": "c6i",
                "PropagateAtLaunch": True,
            }
        ],
    )
    yield yard_shell
    scaling.delete_auto_scaling_group(AutoScalingGroupName="c6i", ForceDelete=True)


def protected(running: RunningYard) -> list[bool]:
    (found,) = running.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return [each["ProtectedFromScaleIn"] for each in found["Instances"]]


def test_the_nodes_of_a_job_are_protected_until_it_is_over(group: RunningYard) -> None:
    said: list[str] = []
    members = find_members(SETUP.cluster, SETUP.region)
    assert len(members) == 2
    protect(SETUP, members[:1], said.append)
    assert sorted(protected(group)) == [False, True]
    protect(SETUP, members, said.append)
    assert protected(group) == [True, True]
    release(SETUP, said.append)
    assert protected(group) == [False, False]
    assert said == []


def test_a_job_runs_without_protection_too_and_its_log_says_so(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    said: list[str] = []
    protect(SETUP, [Member(name="a", address="10.30.0.5", instance_id="i-1")], said.append)
    release(SETUP, said.append)
    assert said[0].startswith("warning: nodes are not protected from scaling in: EndpointConnectionError")
    assert said[1].startswith("warning: nodes stay protected from scaling in: ")
