"""While a job runs, no rule takes its nodes away; afterwards every node may go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node.lock import last_holder, lock_cluster
from slipway.jobs.platforms.mpi.node.run import protect, release
from slipway.jobs.platforms.mpi.node.serve import Server
from slipway.jobs.platforms.mpi.node.setting import ROOT_VARIABLE, NodePaths
from slipway.jobs.platforms.mpi.nodes import find_members
from slipway.jobs.platforms.on_nodes import write_whole
from slipway.jobs.words.mpi import Member
from slipway.jobs.words.names import CLUSTER_TAG
from tests.jobs.platforms.mpi.node.conftest import SETUP
from tests.yard.accounts import own_image
from tests.yard.conftest import RunningYard


@pytest.fixture
def group(yard_shell: RunningYard) -> Iterator[RunningYard]:
    """Two nodes, as the stack makes them; when it is over they are gone."""
    ec2, scaling = yard_shell.client("ec2"), yard_shell.client("autoscaling")
    image = own_image(ec2)
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
    return [instance["ProtectedFromScaleIn"] for instance in found["Instances"]]


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


def test_nodes_of_a_job_whose_run_was_killed_may_go_once_nothing_of_it_is_left(
    group: RunningYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mpirun has the lock until it has ended, too."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    where = NodePaths(root=tmp_path)
    write_whole(where.setup, json.dumps(asdict(SETUP)))
    server = Server(where)
    with lock_cluster(where, "killed-1"):
        protect(SETUP, find_members(SETUP.cluster, SETUP.region), print)
        server.release_left()
        assert protected(group) == [True, True]
    server.release_left()
    assert protected(group) == [False, False]
    protect(SETUP, find_members(SETUP.cluster, SETUP.region), print)
    server.release_left()
    assert protected(group) == [True, True]  # nobody is asked again until another job has run
    Server(where).release_left()
    assert protected(group) == [False, False]  # but by a new main node


def test_what_root_reads_of_the_lock_is_no_link_that_a_job_has_laid(tmp_path: Path) -> None:
    where = NodePaths(root=tmp_path)
    assert last_holder(where) == ""
    where.lock.parent.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    where.lock.symlink_to(tmp_path / "secret")
    assert last_holder(where) == ""


def test_a_job_runs_without_protection_too_and_its_log_says_so(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    said: list[str] = []
    protect(SETUP, [Member(name="a", address="10.30.0.5", instance_id="i-1")], said.append)
    release(SETUP, said.append)
    assert said[0].startswith("warning: nodes are not protected from scaling in: EndpointConnectionError")
    assert said[1].startswith("warning: nodes stay protected from scaling in: ")
