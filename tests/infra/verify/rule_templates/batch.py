"""Jobs, queues and compute environments of AWS Batch: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import COMPUTE, GONE, JOB, POOL, BadRow

CONTAINER = ("NodeProperties", "NodeRangeProperties", 0, "Container")
REPOSITORY = {"Fn::ImportValue": "dl1-storage:ExportsOutputFnGetAttImageRepositoryUri"}
QUEUE = "AWS::Batch::JobQueue"


GOOD: Mapping[str, Any] = {
    "Pool": {
        "Type": COMPUTE,
        "Properties": {
            "Type": "MANAGED",
            "ComputeResources": {
                "Type": "EC2",
                "InstanceTypes": ["dl1.24xlarge"],
                "MinvCpus": 0,
                "MaxvCpus": 192,
                "Subnets": [{"Ref": "Subnet"}],
                "PlacementGroup": {"Ref": "Near"},
                "LaunchTemplate": {
                    "LaunchTemplateId": {"Ref": "Template"},
                    "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
                },
            },
        },
    },
    "Queue": {
        "Type": QUEUE,
        "Properties": {
            "JobStateTimeLimitActions": [
                {"Action": "CANCEL", "MaxTimeSeconds": 600, "Reason": reason, "State": "RUNNABLE"}
                for reason in (
                    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
                    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
                    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
                )
            ]
        },
    },
    "Job": {
        "Type": JOB,
        "Properties": {
            "Type": "multinode",
            "Timeout": {"AttemptDurationSeconds": 3600},
            "RetryStrategy": {
                "EvaluateOnExit": [
                    {"Action": "RETRY", "OnExitCode": "85"},
                    {"Action": "RETRY", "OnStatusReason": "Host EC2*"},
                    {"Action": "EXIT", "OnReason": "*"},
                ]
            },
            "NodeProperties": {
                "NumNodes": 2,
                "NodeRangeProperties": [
                    {
                        "TargetNodes": "0:",
                        "Container": {
                            "InstanceType": "dl1.24xlarge",
                            "Image": {"Fn::Join": ["", [REPOSITORY, ":0123"]]},
                            "Privileged": False,
                            "JobRoleArn": {"Fn::GetAtt": ["JobRole", "Arn"]},
                            "ExecutionRoleArn": {"Fn::GetAtt": ["ExecutionRole", "Arn"]},
                            "ResourceRequirements": [{"Type": "MEMORY", "Value": "754974"}],
                            "Environment": [{"Name": "HABANA_VISIBLE_DEVICES", "Value": "all"}],
                        },
                    }
                ],
            },
        },
    },
    "Profile": {
        "Type": "AWS::IAM::InstanceProfile",
        "Properties": {"Path": "/aws-pcs/", "Roles": [{"Ref": "NodeRole"}]},
    },
    "NodeRole": {"Type": "AWS::IAM::Role", "Properties": {"Path": "/aws-pcs/"}},
}

BAD: tuple[BadRow, ...] = (
    ("batch-any-number-of-nodes", JOB, ("NodeProperties", "NodeRangeProperties", 0, "TargetNodes"), "0:1"),
    ("batch-groups-in-template", COMPUTE, (*POOL, "SecurityGroupIds"), []),
    # BI-152: another registry, by digest too; another account's; and one that a parameter would choose.
    ("batch-image-is-ours", JOB, (*CONTAINER, "Image"), "docker.io/library/python@sha256:" + "0" * 64),
    ("batch-image-is-ours", JOB, (*CONTAINER, "Image"), "1.dkr.ecr.us-east-1.amazonaws.com/gaudi:0123"),
    ("batch-image-is-ours", JOB, (*CONTAINER, "Image"), {"Ref": "Chosen"}),
    ("batch-image-is-ours", JOB, (*CONTAINER, "Image"), {"Fn::Join": ["/", ["evil.example", REPOSITORY]]}),
    ("batch-image-is-ours", JOB, (*CONTAINER, "Image"), GONE),
    ("batch-image-never-moves", JOB, (*CONTAINER, "Image"), "docker.io/library/python:3.11"),
    (
        "batch-image-never-moves",
        JOB,
        (*CONTAINER, "Image"),
        "1.dkr.ecr.us-east-1.amazonaws.com/gaudi:latest",
    ),
    ("batch-image-never-moves", JOB, (*CONTAINER, "Image"), "1.dkr.ecr.us-east-1.amazonaws.com/gaudi"),
    ("batch-job-ends", JOB, ("Timeout",), GONE),
    ("batch-memory-registers", JOB, (*CONTAINER, "ResourceRequirements", 0, "Value"), "760000"),
    ("batch-memory-registers", JOB, (*CONTAINER, "InstanceType"), GONE),
    ("batch-multi-node-on-demand", COMPUTE, (*POOL, "Type"), "SPOT"),
    ("batch-multi-node-on-demand", COMPUTE, (*POOL, "Type"), "FARGATE"),
    ("batch-multi-node-on-demand", COMPUTE, ("Type",), "UNMANAGED"),
    ("batch-no-secrets", JOB, (*CONTAINER, "Environment", 0), {"Name": "HF_TOKEN", "Value": "x"}),
    ("batch-no-secrets", JOB, (*CONTAINER, "Environment", 0, "Value"), "AKIA" + "A" * 16),
    ("batch-not-privileged", JOB, (*CONTAINER, "Privileged"), True),
    ("batch-nothing-idle", COMPUTE, (*POOL, "MinvCpus"), 96),
    ("batch-queue-never-blocks", QUEUE, ("JobStateTimeLimitActions", 0), GONE),
    ("batch-queue-never-blocks", QUEUE, ("JobStateTimeLimitActions", 0, "MaxTimeSeconds"), 599),
    ("batch-queue-never-blocks", QUEUE, ("JobStateTimeLimitActions", 0, "MaxTimeSeconds"), 86401),
    ("batch-queue-never-blocks", QUEUE, ("JobStateTimeLimitActions", 0, "Action"), "TERMINATE"),
    ("batch-retries-chosen", JOB, ("RetryStrategy", "EvaluateOnExit", 2), GONE),
    ("batch-retries-chosen", JOB, ("RetryStrategy", "EvaluateOnExit", 0), GONE),
    ("batch-retries-chosen", JOB, ("RetryStrategy", "EvaluateOnExit", 1), GONE),
    ("batch-rights-apart", JOB, (*CONTAINER, "JobRoleArn"), {"Fn::GetAtt": ["NodeRole", "Arn"]}),
    ("batch-rights-apart", JOB, (*CONTAINER, "JobRoleArn"), {"Fn::GetAtt": ["ExecutionRole", "Arn"]}),
    ("batch-rights-apart", JOB, (*CONTAINER, "ExecutionRoleArn"), GONE),
    ("batch-room-for-nodes", COMPUTE, (*POOL, "MaxvCpus"), 191),
    ("batch-template-version", COMPUTE, (*POOL, "LaunchTemplate", "Version"), GONE),
    ("batch-template-version", COMPUTE, (*POOL, "LaunchTemplate", "Version"), "$Latest"),
)
