"""Makes a target in the yard to which jobs can be submitted, without deploying a stack.

Its compute environment is unmanaged: nothing places multi-node jobs there, so they wait.
"""

from __future__ import annotations

import json
from dataclasses import replace

from slipway.jobs.words.targets import BatchTarget, SageMakerTarget, Target, encode_target, parameter_name
from tests.jobs.words.test_targets import SAGEMAKER_TARGET, TARGET
from tests.yard.conftest import RunningYard

_TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "batch.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
)


def deploy_target(yard: RunningYard, name: str = "dl1") -> BatchTarget:
    batch = yard.client("batch")
    role = yard.client("iam").create_role(RoleName=f"{name}-batch", AssumeRolePolicyDocument=_TRUST)
    environment = batch.create_compute_environment(
        computeEnvironmentName=name, type="UNMANAGED", serviceRole=role["Role"]["Arn"]
    )
    queue = batch.create_job_queue(
        jobQueueName=name,
        state="ENABLED",
        priority=1,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment["computeEnvironmentArn"]}],
    )
    target = replace(
        TARGET,
        name=name,
        queue_arn=queue["jobQueueArn"],
        job_definition_arn=register_definition(yard, name),
        repository_uri=_repository(yard, name),
    )
    record_target(yard, target)
    return target


def deploy_sagemaker_target(yard: RunningYard) -> SageMakerTarget:
    """Write the record of a cluster of SageMaker, and make the bucket that it names."""
    account = yard.client("sts").get_caller_identity()["Account"]
    target = replace(
        SAGEMAKER_TARGET, account=account, file_system_id=None, file_system_mount=None, file_system_path=None
    )
    yard.client("s3").create_bucket(Bucket=target.bucket)
    record_target(yard, target)
    return target


def record_target(yard: RunningYard, target: Target) -> None:
    """Write the record of a cluster, as its stack does."""
    name, record = parameter_name(target.name), encode_target(target)
    yard.client("ssm").put_parameter(Name=name, Value=record, Type="String", Overwrite=True)


def job_names(yard: RunningYard, target: BatchTarget) -> list[str]:
    """List every submitted job, in any state."""
    filters = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]
    pages = yard.client("batch").get_paginator("list_jobs")
    return sorted(
        job["jobName"]
        for page in pages.paginate(jobQueue=target.queue_arn, filters=filters)
        for job in page["jobSummaryList"]
    )


def register_definition(yard: RunningYard, name: str) -> str:
    container = {
        "image": "example",
        "command": ["true"],
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "128"}],
    }
    registered = yard.client("batch").register_job_definition(
        jobDefinitionName=name,
        type="multinode",
        nodeProperties={
            "mainNode": 0,
            "numNodes": 16,
            "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
        },
    )
    return str(registered["jobDefinitionArn"])


def _repository(yard: RunningYard, name: str) -> str:
    return str(yard.client("ecr").create_repository(repositoryName=name)["repository"]["repositoryUri"])
