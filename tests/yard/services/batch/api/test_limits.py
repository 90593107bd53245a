"""AWS Batch refuses requests that its documentation forbids and its API model allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.yard.asking import make_role, refusal
from tests.yard.conftest import RunningYard

CONTAINER = {
    "image": "image",
    "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "512"}],
}
COMPUTE = {
    "type": "EC2",
    "minvCpus": 0,
    "maxvCpus": 96,
    "instanceTypes": ["dl1.24xlarge"],
    "subnets": [],
    "instanceRole": "arn:aws:iam::123456789012:instance-profile/a",
    "securityGroupIds": [],
}


def group(nodes: str) -> dict[str, Any]:
    return {"targetNodes": nodes, "container": CONTAINER}


def multinode(count: int, *groups: str, main: int = 0) -> dict[str, Any]:
    properties = {
        "numNodes": count,
        "mainNode": main,
        "nodeRangeProperties": [group(nodes) for nodes in groups],
    }
    return {"jobDefinitionName": "train", "type": "multinode", "nodeProperties": properties}


def container(**changes: Any) -> dict[str, Any]:
    return {"jobDefinitionName": "train", "type": "container", "containerProperties": CONTAINER, **changes}


def job(**changes: Any) -> dict[str, Any]:
    return {"jobName": "train", "jobQueue": "queue", "jobDefinition": "train:1", **changes}


def queue(**changes: Any) -> dict[str, Any]:
    order = [{"order": 1, "computeEnvironment": "a"}]
    return {"jobQueueName": "queue", "priority": 1, "computeEnvironmentOrder": order, **changes}


def limit(**changes: Any) -> dict[str, Any]:
    action = {"reason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", "state": "RUNNABLE", "action": "CANCEL"}
    return queue(jobStateTimeLimitActions=[{**action, "maxTimeSeconds": 600, **changes}])


def exits(count: int) -> dict[str, Any]:
    return {
        "attempts": 3,
        "evaluateOnExit": [{"onExitCode": str(code), "action": "RETRY"} for code in range(count)],
    }


def of_types(*types: str) -> dict[str, Any]:
    given = multinode(len(types), *map(str, range(len(types))))
    for group, name in zip(given["nodeProperties"]["nodeRangeProperties"], types, strict=True):
        group["container"] = {**group["container"], "instanceType": name}
    return given


REFUSED = {
    "a job name with a space": ("submit_job", job(jobName="two words"), "'two words' at 'jobName'"),
    "a job name of 129": ("submit_job", job(jobName="n" * 129), "at 'jobName'"),
    "no attempt": ("submit_job", job(retryStrategy={"attempts": 0}), "greater than or equal to 1"),
    "11 attempts": ("submit_job", job(retryStrategy={"attempts": 11}), "less than or equal to 10"),
    "6 rules of exit": ("submit_job", job(retryStrategy=exits(6)), "and has 6"),
    "a timeout of 59 s": ("submit_job", job(timeout={"attemptDurationSeconds": 59}), "equal to 60"),
    "an array of 1": ("submit_job", job(arrayProperties={"size": 1}), "at 'arrayProperties.size'"),
    "21 dependencies": ("submit_job", job(dependsOn=[{"jobId": "a"}] * 21), "and has 21"),
    "1001 nodes": ("submit_job", job(nodeOverrides={"numNodes": 1001}), "equal to 1000"),
    "a payload over 30 KiB": ("submit_job", job(parameters={"a": "x" * 31_000}), "at most 30720"),
    "4 environments": (
        "create_job_queue",
        queue(computeEnvironmentOrder=[{"order": n, "computeEnvironment": f"c{n}"} for n in range(4)]),
        "from 0 to 3 items, and has 4",
    ),
    "a limit of 599 s": ("create_job_queue", limit(maxTimeSeconds=599), "equal to 600"),
    "a limit of a day and 1 s": ("create_job_queue", limit(maxTimeSeconds=86_401), "equal to 86400"),
    "6 security groups": (
        "create_compute_environment",
        {
            "computeEnvironmentName": "ce",
            "type": "MANAGED",
            "computeResources": {**COMPUTE, "securityGroupIds": [f"sg-{number}" for number in range(6)]},
        },
        "and has 6",
    ),
    "multinode without nodes": (
        "register_job_definition",
        container(type="multinode"),
        "type is 'multinode'",
    ),
    "6 groups": (
        "register_job_definition",
        multinode(6, *(str(number) for number in range(6))),
        "from 1 to 5 items, and has 6",
    ),
    "nodes left out": ("register_job_definition", multinode(4, "0:1", "3:"), "holds node 2"),
    "a range past the end": (
        "register_job_definition",
        multinode(4, "0:4"),
        "'0:4' is no range within nodes 0",
    ),
    # BI-039
    "groups of two instance types": (
        "register_job_definition",
        of_types("dl1.24xlarge", "trn1.32xlarge"),
        "instance types dl1.24xlarge, trn1.32xlarge; all groups of a job must use one",
    ),
    "a range in words": ("register_job_definition", multinode(4, "all"), "'all' is no range"),
    "ranges that cross": ("register_job_definition", multinode(4, "0:2", "2:3"), "share node 2"),
    "a main node outside": ("register_job_definition", multinode(4, "0:", main=4), "mainNode is 4"),
    "a definition over 24 KiB": (
        "register_job_definition",
        container(parameters={"a": "x" * 25_000}),
        "at most 24576",
    ),
    "101 jobs": ("describe_jobs", {"jobs": [str(number) for number in range(101)]}, "and has 101"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_batch_refuses_is_refused(yard: RunningYard, what: str) -> None:
    operation, parameters, said = REFUSED[what]
    refused = refusal(getattr(yard.client("batch"), operation), **parameters)
    assert (refused["Code"], refused["status"]) == ("ClientException", 400)
    assert said in refused["Message"]


TAKEN: Mapping[str, dict[str, Any]] = {
    "all nodes in one": multinode(4, "0:"),
    "main and workers": multinode(4, "0", "1:"),
    "without a start": multinode(4, ":1", "2:3"),
    "one within another": multinode(4, "0:3", "1:2"),
    "five groups and a main node of the last": multinode(5, "0", "1", "2", "3", "4", main=4),
    "a container with every limit just met": container(
        jobDefinitionName="n" * 128,
        retryStrategy={**exits(5), "attempts": 10},
        timeout={"attemptDurationSeconds": 60},
    ),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_batch_takes_is_taken(yard: RunningYard, what: str) -> None:
    made = yard.client("batch").register_job_definition(**TAKEN[what])
    assert made["jobDefinitionName"] == TAKEN[what]["jobDefinitionName"]


def test_a_compute_environment_without_a_role_gets_the_one_that_aws_makes(yard: RunningYard) -> None:
    ec2, batch = yard.client("ec2"), yard.client("batch")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    iam = yard.client("iam")
    make_role(yard, "a", {"Service": "ec2.amazonaws.com"})
    profile = iam.create_instance_profile(InstanceProfileName="a")["InstanceProfile"]["Arn"]
    iam.add_role_to_instance_profile(InstanceProfileName="a", RoleName="a")
    security = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    resources = {**COMPUTE, "subnets": [subnet], "instanceRole": profile, "securityGroupIds": [security]}
    batch.create_compute_environment(computeEnvironmentName="dl1", type="MANAGED", computeResources=resources)
    (found,) = batch.describe_compute_environments(computeEnvironments=["dl1"])["computeEnvironments"]
    assert found["serviceRole"].endswith("/batch.amazonaws.com/AWSServiceRoleForBatch")
    assert (found["status"], found["computeResources"]["instanceTypes"]) == ("VALID", ["dl1.24xlarge"])


def test_a_compute_environment_that_moto_refuses_is_batchs_error(yard: RunningYard) -> None:
    refused = refusal(
        yard.client("batch").create_compute_environment,
        computeEnvironmentName="dl1",
        type="MANAGED",
        computeResources={**COMPUTE, "subnets": ["subnet-none"]},
    )
    assert refused["Code"] == "ClientException"


@pytest.mark.parametrize(
    "changes",
    [{"securityGroupIds": None}, {"securityGroupIds": []}, {"instanceTypes": None}, {"instanceTypes": []}],
)
def test_machines_without_a_security_group_or_a_type_are_refused(
    yard: RunningYard, changes: dict[str, Any]
) -> None:
    """BI-448"""
    ec2 = yard.client("ec2")
    resources = {
        **COMPUTE,
        "subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
        "securityGroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
        **changes,
    }
    given = {name: value for name, value in resources.items() if value is not None}
    create = yard.client("batch").create_compute_environment
    refused = refusal(create, computeEnvironmentName="ce", type="MANAGED", computeResources=given)
    assert (refused["Code"], refused["status"]) == ("ClientException", 400)
    assert f"{next(iter(changes))} is required" in refused["Message"]
