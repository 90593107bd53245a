"""AWS Batch."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import TAG_MAP, Case, Cases
from tests.yard.cloudformation.resources.world import World


def compute_environment(world: World) -> Case:
    return Case(
        properties={
            "Type": "MANAGED",
            "ReplaceComputeEnvironment": False,
            "UpdatePolicy": {"TerminateJobsOnUpdate": False, "JobExecutionTimeoutMinutes": 60},
            "ComputeResources": {**world.compute_resources(), "UpdateToLatestImageVersion": False},
            "Tags": TAG_MAP,
        },
        change={"State": "DISABLED"},
    )


def job_queue(world: World) -> Case:
    return Case(
        properties={
            "Priority": 1,
            "State": "ENABLED",
            "ComputeEnvironmentOrder": [{"ComputeEnvironment": world.compute_environment(), "Order": 1}],
            "Tags": TAG_MAP,
        },
        change={"Priority": 5, "State": "DISABLED"},
    )


def job_definition(_world: World) -> Case:
    container = {
        "Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/gaudi:1",
        "Command": ["python", "-m", "train"],
        "ResourceRequirements": [{"Type": "VCPU", "Value": "96"}, {"Type": "MEMORY", "Value": "700000"}],
    }
    retry = {"Attempts": 3, "EvaluateOnExit": [{"Action": "RETRY", "OnStatusReason": "Host EC2*"}]}
    return Case(
        properties={
            "Type": "container",
            "ContainerProperties": container,
            "RetryStrategy": retry,
            "Tags": TAG_MAP,
        },
        change={"ContainerProperties": {**container, "Command": ["true"]}},
    )


def scheduling_policy(_world: World) -> Case:
    return Case(
        properties={"FairsharePolicy": {"ShareDecaySeconds": 60}, "Tags": TAG_MAP},
        change={"FairsharePolicy": {"ShareDecaySeconds": 120}},
    )


CASES: Cases = {
    "AWS::Batch::ComputeEnvironment": compute_environment,
    "AWS::Batch::JobQueue": job_queue,
    "AWS::Batch::JobDefinition": job_definition,
    "AWS::Batch::SchedulingPolicy": scheduling_policy,
}
