"""Nodes' instances live from launch to end; jobs, their start and instances each use their own role."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.yard.endpoint import ACCOUNT, control
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.waiting import until
from tests.yard.asking import make_role, policy, refusal
from tests.yard.services.batch.conftest import FOREVER, Cluster

UNDETERMINED = "UNDETERMINED - Batch job is blocked, root cause is undetermined."
DL = "L-6E869C2A"
# No agent registers: such a fault is none of an API's, so it is scripted where the agents would call.
SILENT = Fault(service="ecs", operation="RegisterContainerInstance", kind=FaultKind.SERVER_ERROR, times=None)


def running(cluster: Cluster) -> list[dict[str, Any]]:
    billed = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    answer = cluster.yard.client("ec2").describe_instances(Filters=billed)
    return [instance for found in answer["Reservations"] for instance in found["Instances"]]


def waits_undetermined(cluster: Cluster, job: str) -> None:
    until(lambda: cluster.describe(job).get("statusReason") == UNDETERMINED)
    assert cluster.describe(job)["status"] == "RUNNABLE"


def test_a_job_has_an_instance_for_each_node_until_it_ends(cluster: Cluster) -> None:
    job = cluster.submit(FOREVER, nodes=2)
    cluster.says(job, "ready")
    assert [each["InstanceType"] for each in running(cluster)] == ["dl1.24xlarge"] * 2
    cluster.batch.terminate_job(jobId=job, reason="enough")
    cluster.ended(job)
    assert running(cluster) == []


def test_each_node_names_the_container_instance_that_it_runs_on(cluster: Cluster) -> None:
    job = cluster.submit(FOREVER, nodes=2)
    cluster.says(job, "ready")
    arns = {cluster.describe(f"{job}#{node}")["container"]["containerInstanceArn"] for node in (0, 1)}
    assert len(arns) == 2
    for arn in arns:
        assert arn.startswith(f"arn:aws:ecs:us-east-1:{ACCOUNT}:container-instance/pool_Batch/")


def test_the_reason_of_a_lost_host_names_an_instance_that_ec2_knows(cluster: Cluster) -> None:
    job = cluster.submit(FOREVER, nodes=2, retryStrategy={"attempts": 1})
    cluster.says(job, "ready")
    known = {each["InstanceId"] for each in running(cluster)}
    cluster.kill_node(job, 0)
    said = cluster.ended(job)["statusReason"]
    assert any(f"(instance {instance})" in said for instance in known), said


def test_an_instance_whose_agent_never_registers_stays_and_bills_and_nothing_ends_the_wait(
    cluster: Cluster,
) -> None:
    script(cluster.yard, SILENT)
    job = cluster.submit("pass", nodes=2)
    waits_undetermined(cluster, job)
    assert len(running(cluster)) == 2
    (queue,) = cluster.batch.describe_job_queues(jobQueues=["queue"])["jobQueues"]
    assert queue["jobStateTimeLimitActions"], "the queue has limits, and none of them strikes"
    waits_undetermined(cluster, job)
    cluster.batch.cancel_job(jobId=job, reason="somebody looked")
    assert cluster.ended(job)["status"] == "FAILED"
    assert running(cluster) == []


def test_no_time_limit_can_be_set_for_an_undetermined_reason(cluster: Cluster) -> None:
    action = {"reason": "UNDETERMINED", "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "CANCEL"}
    refused = refusal(cluster.batch.update_job_queue, jobQueue="queue", jobStateTimeLimitActions=[action])
    assert refused["Code"] == "ClientException"


def test_a_job_above_the_quota_waits_without_a_word_of_the_quota_and_starts_when_it_is_raised(
    cluster: Cluster,
) -> None:
    control(cluster.yard, "POST", "/grant-quota", {"code": DL, "vcpus": 96})
    job = cluster.submit("pass", nodes=2)
    waits_undetermined(cluster, job)
    assert running(cluster) == []
    control(cluster.yard, "POST", "/grant-quota", {"code": DL, "vcpus": 192})
    assert cluster.ended(job)["status"] == "SUCCEEDED"


# A job has its own role's permissions, is started with another role's, and its instance has a third role.
TASKS = {"Service": "ecs-tasks.amazonaws.com"}
WHO = "import boto3\nprint(boto3.client('sts').get_caller_identity()['Arn'])"
READ = (
    "import boto3, botocore\n"
    "try: boto3.client('s3').get_object(Bucket='data', Key='secret/a')\n"
    "except botocore.exceptions.ClientError as error: print(error)"
)
STARTS = (
    {"Effect": "Allow", "Action": "ecr:*", "Resource": "*"},
    {"Effect": "Allow", "Action": "logs:*", "Resource": "*"},
)


def run(cluster: Cluster, code: str, **container: str) -> str:
    """Return what a job of one node printed, or why it was not started."""
    cluster.define(name="roles", container=container)
    job = cluster.submit(code, definition="roles", nodes=1)
    cluster.ended(job)
    attempt = cluster.describe(f"{job}#0")["attempts"][0]
    return str(attempt["container"].get("reason") or " ".join(cluster.lines(job)))


def test_a_job_signs_as_a_session_of_its_role(cluster: Cluster) -> None:
    said = run(cluster, WHO, jobRoleArn=make_role(cluster.yard, "job", TASKS))
    assert f"arn:aws:sts::{ACCOUNT}:assumed-role/job/" in said


def test_a_job_is_refused_what_its_role_lacks(cluster: Cluster) -> None:
    cluster.yard.client("s3").create_bucket(Bucket="data")
    read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/jobs/*"}
    said = run(cluster, READ, jobRoleArn=make_role(cluster.yard, "job", TASKS, read))
    assert "because no identity-based policy allows the s3:GetObject action" in said


def test_a_role_that_does_not_trust_tasks_starts_no_job(cluster: Cluster) -> None:
    role = make_role(cluster.yard, "job", {"Service": "ec2.amazonaws.com"})
    assert f"ECS was unable to assume the role '{role}'" in run(cluster, "pass", jobRoleArn=role)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("ecr:BatchGetImage", "CannotPullECRContainerError: AccessDeniedException: User: "),
        ("logs:CreateLogStream", "ResourceInitializationError: failed to create Cloudwatch log stream: "),
    ],
)
def test_an_execution_role_that_lacks_an_action_starts_no_job(
    cluster: Cluster, action: str, words: str
) -> None:
    deny = {"Effect": "Deny", "Action": action, "Resource": "*"}
    role = make_role(cluster.yard, "starts", TASKS, *STARTS, deny)
    image = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/slipway/gaudi:1"
    reason = run(cluster, "pass", executionRoleArn=role, image=image)
    assert reason.startswith(words)
    assert f"is not authorized to perform: {action} on resource: " in reason


def test_instances_whose_role_cannot_join_keep_the_job_waiting(cluster: Cluster) -> None:
    make_role(cluster.yard, "node", {"Service": "ec2.amazonaws.com"})
    iam = cluster.yard.client("iam")
    iam.add_role_to_instance_profile(InstanceProfileName="node", RoleName="node")
    job = cluster.submit("pass", nodes=1)
    waits_undetermined(cluster, job)
    join = policy({"Effect": "Allow", "Action": "ecs:*", "Resource": "*"})
    iam.put_role_policy(RoleName="node", PolicyName="join", PolicyDocument=join)
    cluster.batch.cancel_job(jobId=job, reason="somebody looked")
    cluster.ended(job)
    assert cluster.ended(cluster.submit("pass", nodes=1))["status"] == "SUCCEEDED"
