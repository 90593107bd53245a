"""What runs jobs: AWS Batch, groups of nodes, AWS PCS and SageMaker; what passes, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import (
    COMPUTE,
    DATA,
    GONE,
    IN,
    JOB,
    OUT,
    POOL,
    SELF,
    TEMPLATE,
    BadRow,
)

# Launch templates, groups of nodes and how close they are.
NODE_GROUP = "AWS::AutoScaling::AutoScalingGroup"


def _interface(card: int) -> dict[str, Any]:
    return {
        "NetworkCardIndex": card,
        "DeviceIndex": 0,
        "InterfaceType": "efa-only" if card else "efa",
        "Groups": [SELF],
        **({"AssociatePublicIpAddress": False} if card == 0 else {}),
    }


def _metal(options: dict[str, int]) -> dict[str, Any]:
    return {"InstanceType": "c6i.metal", "CpuOptions": options}


def _two_threads(instance_type: str) -> dict[str, Any]:
    return {"InstanceType": instance_type, "CpuOptions": {"CoreCount": 32, "ThreadsPerCore": 2}}


NODES: Mapping[str, Any] = {
    "Near": {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": "cluster"}},
    "Template": {
        "Type": TEMPLATE,
        "Properties": {
            "LaunchTemplateData": {
                "NetworkInterfaces": [_interface(card) for card in range(4)],
                "Placement": {"GroupName": {"Ref": "Near"}},
                "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
                "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"Encrypted": True}}],
            }
        },
    },
    "Machine": {
        "Type": NODE_GROUP,
        "Properties": {
            "MinSize": "0",
            "VPCZoneIdentifier": [{"Ref": "Subnet"}],
            "PlacementGroup": {"Ref": "Near"},
            "LaunchTemplate": {
                "LaunchTemplateId": {"Ref": "Template"},
                "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
            },
        },
    },
}

BAD_NODES: tuple[BadRow, ...] = (
    ("efa-groups", IN, ("SourceSecurityGroupId",), {"Fn::GetAtt": ["Another", "GroupId"]}),
    ("efa-groups", OUT, ("DestinationSecurityGroupId",), GONE),
    ("efa-groups", OUT, ("IpProtocol",), "tcp"),
    ("efa-groups", TEMPLATE, (*DATA, "NetworkInterfaces", 1, "Groups"), [{"Fn::ImportValue": "group"}]),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces"), [_interface(card) for card in range(5)]),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 2, "InterfaceType"), "efax"),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 3, "NetworkCardIndex"), 2),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 1, "DeviceIndex"), 2),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 0, "DeviceIndex"), 1),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 0, "InterfaceType"), "efa-only"),
    ("efa-interfaces", COMPUTE, (*POOL, "InstanceTypes"), ["c6i.16xlarge"]),
    ("efa-interfaces", COMPUTE, (*POOL, "InstanceTypes"), ["p6-b300.48xlarge"]),
    ("efa-together", COMPUTE, (*POOL, "Subnets"), [{"Ref": "Subnet"}, {"Ref": "Another"}]),
    ("efa-together", COMPUTE, (*POOL, "PlacementGroup"), GONE),
    ("efa-together", "AWS::EC2::PlacementGroup", ("Strategy",), "spread"),
    ("efa-interfaces", TEMPLATE, (*DATA, "InstanceType"), "c6i.16xlarge"),
    ("group-close", NODE_GROUP, ("PlacementGroup",), GONE),
    ("group-close", "AWS::EC2::PlacementGroup", ("Strategy",), "spread"),
    ("group-close", NODE_GROUP, ("VPCZoneIdentifier",), [{"Ref": "Subnet"}, {"Ref": "Another"}]),
    ("group-cpu-options", TEMPLATE, DATA, _metal({"CoreCount": 64, "ThreadsPerCore": 1})),
    ("group-ends-no-job", NODE_GROUP, ("<UpdatePolicy>",), {"AutoScalingRollingUpdate": {"MaxBatchSize": 1}}),
    (
        "group-ends-no-job",
        NODE_GROUP,
        ("<UpdatePolicy>",),
        {"AutoScalingReplacingUpdate": {"WillReplace": True}},
    ),
    ("group-one-thread", TEMPLATE, (*DATA, "InstanceType"), "c6i.32xlarge"),
    ("group-one-thread", TEMPLATE, DATA, _two_threads("c6i.16xlarge")),
    ("group-template-version", NODE_GROUP, ("LaunchTemplate", "Version"), GONE),
    ("group-template-version", NODE_GROUP, ("LaunchTemplate", "Version"), "$Latest"),
    ("node-disks-encrypted", TEMPLATE, (*DATA, "BlockDeviceMappings", 0, "Ebs", "Encrypted"), False),
    ("node-disks-encrypted", TEMPLATE, (*DATA, "BlockDeviceMappings"), GONE),
    ("node-metadata-tokens", TEMPLATE, (*DATA, "MetadataOptions", "HttpTokens"), "optional"),
    ("node-metadata-tokens", TEMPLATE, (*DATA, "MetadataOptions", "HttpPutResponseHopLimit"), 2),
    ("node-no-key-pair", TEMPLATE, (*DATA, "KeyName"), "mine"),
    ("node-no-public-address", TEMPLATE, (*DATA, "NetworkInterfaces", 0, "AssociatePublicIpAddress"), True),
    ("node-no-public-address", "AWS::EC2::Subnet", ("MapPublicIpOnLaunch",), True),
)


# Jobs, queues and compute environments of AWS Batch.
CONTAINER = ("NodeProperties", "NodeRangeProperties", 0, "Container")
REPOSITORY = {"Fn::ImportValue": "dl1-storage:ExportsOutputFnGetAttImageRepositoryUri"}
QUEUE = "AWS::Batch::JobQueue"


BATCH: Mapping[str, Any] = {
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
                            "ResourceRequirements": [{"Type": "MEMORY", "Value": "754462"}],
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

BAD_BATCH: tuple[BadRow, ...] = (
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


# A cluster, its machines and their roles on AWS PCS.
PCS_CLUSTER = "AWS::PCS::Cluster"
PCS_GROUP = "AWS::PCS::ComputeNodeGroup"
PROFILE = "AWS::IAM::InstanceProfile"
SLURM = ("SlurmConfiguration",)


PCS: Mapping[str, Any] = {
    "Scheduler": {
        "Type": PCS_CLUSTER,
        "Properties": {
            "SlurmConfiguration": {
                "Accounting": {"Mode": "STANDARD"},
                "ScaleDownIdleTimeInSeconds": 600,
            }
        },
    },
    "Workers": {
        "Type": PCS_GROUP,
        "Properties": {
            "AmiId": {"Ref": "NodeImage"},
            "SubnetIds": [{"Ref": "Subnet"}],
            "InstanceConfigs": [{"InstanceType": "dl1.24xlarge"}],
            "ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 4},
            "CustomLaunchTemplate": {
                "TemplateId": {"Ref": "Template"},
                "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
            },
            "IamInstanceProfileArn": {"Fn::GetAtt": ["Profile", "Arn"]},
            "SlurmConfiguration": {
                "GresCustomSettings": [{"Name": "gaudi", "Count": "8"}],
                "SlurmCustomSettings": [{"ParameterName": "Gres", "ParameterValue": "gaudi:8"}],
            },
        },
    },
}

BAD_PCS: tuple[BadRow, ...] = (
    ("efa-interfaces", PCS_GROUP, ("InstanceConfigs",), [{"InstanceType": "trn1.2xlarge"}]),
    ("pcs-accounts", PCS_CLUSTER, (*SLURM, "Accounting"), GONE),
    ("pcs-accounts", PCS_CLUSTER, (*SLURM, "Accounting", "Mode"), "NONE"),
    ("pcs-close", PCS_GROUP, ("SubnetIds",), [{"Ref": "Subnet"}, {"Ref": "Another"}]),
    ("pcs-close", TEMPLATE, (*DATA, "Placement"), GONE),
    ("pcs-close", "AWS::EC2::PlacementGroup", ("Strategy",), "spread"),
    ("pcs-devices", PCS_GROUP, (*SLURM, "GresCustomSettings"), GONE),
    ("pcs-devices", PCS_GROUP, (*SLURM, "SlurmCustomSettings", 0, "ParameterValue"), "gaudi:16"),
    ("pcs-devices", PCS_GROUP, (*SLURM, "GresCustomSettings", 0, "Name"), "gpu"),
    ("pcs-machines-named", PCS_GROUP, ("AmiId",), GONE),
    ("pcs-machines-named", PCS_GROUP, ("CustomLaunchTemplate", "Version"), "$Latest"),
    ("pcs-nothing-idle", PCS_CLUSTER, (*SLURM, "ScaleDownIdleTimeInSeconds"), GONE),
    ("pcs-nothing-idle", PCS_GROUP, ("ScalingConfiguration", "MinInstanceCount"), 1),
    ("pcs-nothing-idle", PCS_GROUP, ("ScalingConfiguration", "MinInstanceCount"), 4),
    ("pcs-roles", PROFILE, ("Path",), GONE),
    ("pcs-roles", PROFILE, ("Roles",), []),
    ("pcs-roles", "AWS::IAM::Role", ("Path",), "/"),
    ("pcs-roles", PCS_GROUP, ("IamInstanceProfileArn",), "arn:aws:iam::123456789012:instance-profile/mine"),
)


# The role of training jobs and what it may join.
ROLE = "AWS::IAM::Role"
_SAGEMAKER = {
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
        }
    ]
}


BAD_SAGEMAKER: tuple[BadRow, ...] = (
    ("sagemaker-group", IN, ("SourceSecurityGroupId",), "sg-1"),
    ("sagemaker-group", OUT, ("IpProtocol",), "tcp"),
    ("sagemaker-nothing-stands", "AWS::EC2::Subnet", ("<type>",), "AWS::SageMaker::Endpoint"),
    ("sagemaker-nothing-stands", "AWS::EC2::Subnet", ("<type>",), "AWS::SageMaker::Cluster"),
    ("sagemaker-role", ROLE, ("AssumeRolePolicyDocument",), _SAGEMAKER),
)


GOOD: Mapping[str, Any] = {**NODES, **BATCH, **PCS}
BAD: tuple[BadRow, ...] = (*BAD_NODES, *BAD_BATCH, *BAD_PCS, *BAD_SAGEMAKER)
