"""A job has the rights of its role, is started with those of another, and on instances with a third."""

from __future__ import annotations

import pytest

from slipway.yard.endpoint import ACCOUNT
from tests.yard.asking import make_role, policy
from tests.yard.services.batch.conftest import Cluster
from tests.yard.services.batch.test_instances import waits_undetermined

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
