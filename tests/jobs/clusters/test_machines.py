"""A user sees the machines of a cluster or a job that can be entered, in the order of their numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from slipway.jobs.clusters.machines import EnteredNodes, NoMachine, find_machines
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.slurm import GROUP_TAG
from slipway.jobs.words.targets import BatchTarget, Target, encode_target, parameter_name
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.deployed import deploy_sagemaker_target
from tests.jobs.words.test_targets import MPI_TARGET, SLURM_TARGET
from tests.yard.accounts import own_image
from tests.yard.conftest import REGION, RunningYard

CONTAINER = "arn:aws:ecs:us-east-1:123456789012:container-instance/dl1_Batch/"


@pytest.fixture
def answers(yard_shell: RunningYard) -> Iterator[RunningYard]:
    yield yard_shell
    unscript(yard_shell)


def deploy(yard: RunningYard, target: Target) -> None:
    yard.client("ssm").put_parameter(
        Name=parameter_name(target.name), Value=encode_target(target), Type="String"
    )


def start(yard: RunningYard, cluster: str) -> str:
    ec2 = yard.client("ec2")
    given = [{"Key": CLUSTER_TAG, "Value": cluster}]
    ran = ec2.run_instances(
        ImageId=own_image(ec2),
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": given}],
    )
    return str(ran["Instances"][0]["InstanceId"])


def ids(machines: EnteredNodes) -> list[str]:
    assert [each.number for each in machines.listed] == list(range(len(machines.listed)))
    return [each.instance_id for each in machines.listed]


def say(yard: RunningYard, service: str, operation: str, *results: dict[str, Any]) -> None:
    script(
        yard,
        Fault(service=service, operation=operation, kind=FaultKind.RESPOND, body=list(results), times=None),
    )


def batch_job(yard: RunningYard, target: BatchTarget, status: str, *containers: dict[str, str]) -> None:
    job = {"jobId": "0a1b", "jobName": "bert", "status": status, "tags": {"slipway:nodes": "2"}}
    nodes = [{**job, "jobId": f"0a1b#{node}", "container": each} for node, each in enumerate(containers)]
    say(yard, "batch", "ListJobs", {"jobSummaryList": [{"jobId": "0a1b", "jobName": "bert"}]})
    say(yard, "batch", "DescribeJobs", {"jobs": [job]}, {"jobs": nodes})


def test_a_cluster_s_machines_are_numbered_and_those_of_others_and_of_the_past_are_not_there(
    yard_shell: RunningYard,
) -> None:
    deploy(yard_shell, MPI_TARGET)
    mine = {start(yard_shell, "c6i"), start(yard_shell, "c6i")}
    gone, _ = start(yard_shell, "c6i"), start(yard_shell, "other")
    yard_shell.client("ec2").terminate_instances(InstanceIds=[gone])
    found = find_machines("c6i", REGION)
    assert set(ids(found)) == mine
    assert {each.user for each in found.listed} == {"slipway"}


def test_the_login_node_of_slurm_is_number_0_though_it_is_younger(answers: RunningYard) -> None:
    deploy(answers, SLURM_TARGET)
    worker, login = start(answers, "trn1"), start(answers, "trn1")
    described = answers.client("ec2").describe_instances(InstanceIds=[worker, login])["Reservations"]
    groups = {worker: SLURM_TARGET.node_group, login: SLURM_TARGET.login_group}
    for instance in (each for reservation in described for each in reservation["Instances"]):
        instance["Tags"].append(
            {"Key": GROUP_TAG, "Value": groups[instance["InstanceId"]]}
        )  # only PCS may do this
    told = json.loads(json.dumps(described, default=datetime.isoformat))
    say(answers, "ec2", "DescribeInstances", {"Reservations": told})
    assert ids(find_machines("trn1", REGION)) == [login, worker]


def test_a_cluster_without_machines_says_what_starts_them(yard_shell: RunningYard) -> None:
    deploy(yard_shell, MPI_TARGET)
    with pytest.raises(NoMachine, match="no machine of c6i is running") as refused:
        find_machines("c6i", REGION)
    assert "slipway run" in refused.value.hint


def test_a_node_that_is_not_there_is_refused_with_those_that_are(yard_shell: RunningYard) -> None:
    deploy(yard_shell, MPI_TARGET)
    instance = start(yard_shell, "c6i")
    found = find_machines("c6i", REGION)
    assert found.choose(None) == found.choose("0") == found.choose(instance) == found.listed[0]
    with pytest.raises(NoMachine, match="c6i has no node '7'") as refused:
        found.choose("7")
    assert instance in refused.value.hint


def test_nobody_enters_the_instances_of_sagemaker(yard_shell: RunningYard) -> None:
    target = deploy_sagemaker_target(yard_shell)
    with pytest.raises(NoMachine, match="nobody can enter them"):
        find_machines(target.name, REGION)


def test_a_job_of_batch_is_on_the_machines_that_ecs_names(answers: RunningYard, target: BatchTarget) -> None:
    main, other = start(answers, target.name), start(answers, target.name)
    batch_job(
        answers,
        target,
        "RUNNING",
        {"containerInstanceArn": f"{CONTAINER}1"},
        {"containerInstanceArn": f"{CONTAINER}2"},
    )
    told = [
        {"containerInstanceArn": f"{CONTAINER}{number}", "ec2InstanceId": each}
        for number, each in ((2, other), (1, main))
    ]
    say(answers, "ecs", "DescribeContainerInstances", {"containerInstances": told})
    found = find_machines("bert", REGION)
    assert ids(found) == [main, other]
    assert "docker exec -it ID bash" in found.note


def test_a_job_of_batch_in_the_yard_has_no_machine_and_no_permission_is_missing(
    answers: RunningYard, target: BatchTarget
) -> None:
    batch_job(answers, target, "RUNNING", {"containerInstanceArn": f"{CONTAINER}1"})
    with pytest.raises(SlipwayError, match="DescribeContainerInstances gave no answer") as refused:
        find_machines("bert", REGION)
    assert refused.value.hint == "slipway ssh dl1 does without; in the yard no node has a machine"


def test_a_job_of_batch_whose_machines_nobody_names_says_so(
    answers: RunningYard, target: BatchTarget
) -> None:
    batch_job(answers, target, "RUNNING", {}, {})
    with pytest.raises(NoMachine, match="AWS Batch names no machine of bert"):
        find_machines("bert", REGION)


def test_a_job_that_does_not_run_has_no_machine(answers: RunningYard, target: BatchTarget) -> None:
    batch_job(answers, target, "RUNNABLE")
    with pytest.raises(NoMachine, match=r"bert is not running \(waiting\)") as refused:
        find_machines("bert", REGION)
    assert refused.value.hint.startswith("slipway ssh dl1 ")


def test_one_of_amazon_linux_lets_in_another_user_than_one_of_ubuntu(
    answers: RunningYard, target: BatchTarget
) -> None:
    instance = {
        "InstanceId": "i-1",
        "LaunchTime": "2026-11-21T12:00:00Z",
        "PrivateDnsName": "ip-1.ec2.internal",
    }
    for disk, user in (("/dev/sda1", "ubuntu"), ("/dev/xvda", "ec2-user")):
        say(
            answers,
            "ec2",
            "DescribeInstances",
            {"Reservations": [{"Instances": [{**instance, "RootDeviceName": disk}]}]},
        )
        (found,) = find_machines(target.name, REGION).listed
        assert (found.name, found.user) == ("ip-1", user)
        unscript(answers)
