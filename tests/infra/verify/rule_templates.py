"""A template that every rule passes, and for each rule what it does not: (rule, type, path, wrong value).

A path is of keys and indices, from the properties of the one resource of that type; GONE takes the key away.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

GONE = object()

Path = tuple[str | int, ...]

_DATA = ("LaunchTemplateData",)
_CONTAINER = ("NodeProperties", "NodeRangeProperties", 0, "Container")
_POOL = ("ComputeResources",)
_TEMPLATE = "AWS::EC2::LaunchTemplate"
_COMPUTE = "AWS::Batch::ComputeEnvironment"
_JOB = "AWS::Batch::JobDefinition"
_REPOSITORY = {"Fn::ImportValue": "dl1-storage:ExportsOutputFnGetAttImageRepositoryUri"}
_QUEUE = "AWS::Batch::JobQueue"
_GROUP = "AWS::EC2::SecurityGroup"
_IN = "AWS::EC2::SecurityGroupIngress"
_OUT = "AWS::EC2::SecurityGroupEgress"
_FSX = "AWS::FSx::FileSystem"
_ROLE = "AWS::IAM::Role"
_POLICY = "AWS::IAM::ManagedPolicy"
_BUCKET = "AWS::S3::Bucket"

_MACHINE = "AWS::AutoScaling::AutoScalingGroup"
_SECRET = "AWS::SecretsManager::Secret"
_SECRET_POLICY = "AWS::SecretsManager::ResourcePolicy"
_DOCUMENT = "AWS::SSM::Document"

_SELF = {"Fn::GetAtt": ["Group", "GroupId"]}


def _interface(card: int) -> dict[str, Any]:
    return {
        "NetworkCardIndex": card,
        "DeviceIndex": min(card, 1),
        "InterfaceType": "efa",
        "Groups": [_SELF],
        **({"AssociatePublicIpAddress": False} if card == 0 else {}),
    }


def _metal(options: dict[str, int]) -> dict[str, Any]:
    return {"InstanceType": "c6i.metal", "CpuOptions": options}


def _two_threads(instance_type: str) -> dict[str, Any]:
    return {"InstanceType": instance_type, "CpuOptions": {"CoreCount": 32, "ThreadsPerCore": 2}}


_COMPONENT = "AWS::ImageBuilder::Component"
_RECIPE = "AWS::ImageBuilder::ImageRecipe"
_BAKED_ON = "AWS::ImageBuilder::InfrastructureConfiguration"
_PIPELINE = "AWS::ImageBuilder::ImagePipeline"
_DISTRIBUTION = "AWS::ImageBuilder::DistributionConfiguration"
_SOUND_COMPONENT = """
name: tool
schemaVersion: 1.0
parameters:
  - ToolSha256: {type: string}
phases:
  - name: build
    steps:
      - name: Download
        action: WebDownload
        onFailure: Abort
        inputs: [{source: "https://a.b", destination: /a, algorithm: SHA256, checksum: "{{ ToolSha256 }}"}]
  - name: test
    steps: []
"""

GOOD: Mapping[str, Any] = {
    "Resources": {
        "Group": {
            "Type": _GROUP,
            "Properties": {
                "SecurityGroupIngress": [
                    {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "10.0.0.0/16"}
                ],
                "SecurityGroupEgress": [
                    {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}
                ],
            },
        },
        "SelfIn": {
            "Type": _IN,
            "Properties": {"IpProtocol": "-1", "GroupId": _SELF, "SourceSecurityGroupId": _SELF},
        },
        "SelfOut": {
            "Type": _OUT,
            "Properties": {"IpProtocol": "-1", "GroupId": _SELF, "DestinationSecurityGroupId": _SELF},
        },
        "Component": {"Type": _COMPONENT, "Properties": {"Data": _SOUND_COMPONENT}},
        "Recipe": {
            "Type": _RECIPE,
            "Properties": {"BlockDeviceMappings": [{"Ebs": {"Encrypted": True}}]},
        },
        "BakedOn": {
            "Type": _BAKED_ON,
            "Properties": {
                "InstanceMetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
                "SubnetId": {"Ref": "Subnet"},
                "SecurityGroupIds": [{"Ref": "Group"}],
                "TerminateInstanceOnFailure": True,
            },
        },
        "Pipeline": {
            "Type": _PIPELINE,
            "Properties": {"ImageTestsConfiguration": {"ImageTestsEnabled": True}},
        },
        "Distribution": {
            "Type": _DISTRIBUTION,
            "Properties": {"Distributions": [{"AmiDistributionConfiguration": {"Name": "image"}}]},
        },
        "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"MapPublicIpOnLaunch": False}},
        "Near": {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": "cluster"}},
        "Template": {
            "Type": _TEMPLATE,
            "Properties": {
                "LaunchTemplateData": {
                    "NetworkInterfaces": [_interface(card) for card in range(4)],
                    "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
                    "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"Encrypted": True}}],
                }
            },
        },
        "Pool": {
            "Type": _COMPUTE,
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
        "Machine": {
            "Type": _MACHINE,
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
        "Secret": {"Type": _SECRET, "Properties": {"KmsKeyId": "key", "GenerateSecretString": {}}},
        "SecretPolicy": {
            "Type": _SECRET_POLICY,
            "Properties": {
                "SecretId": {"Ref": "Secret"},
                "BlockPublicPolicy": True,
                "ResourcePolicy": {
                    "Statement": [{"Effect": "Deny", "Action": "secretsmanager:GetSecretValue"}]
                },
            },
        },
        "Document": {
            "Type": _DOCUMENT,
            "Properties": {"Content": {"mainSteps": [{"inputs": {"runCommand": ["exec run"]}}]}},
        },
        "Queue": {
            "Type": _QUEUE,
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
            "Type": _JOB,
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
                                "Image": {"Fn::Join": ["", [_REPOSITORY, ":0123"]]},
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
        "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "NodeRole"}]}},
        "NodeRole": {"Type": _ROLE, "Properties": {}},
        "Policy": {
            "Type": _POLICY,
            "Properties": {
                "PolicyDocument": {
                    "Statement": [{"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"}]
                }
            },
        },
        "Logs": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"RetentionInDays": 365, "KmsKeyId": {"Fn::GetAtt": ["Key", "Arn"]}},
        },
        "Images": {
            "Type": "AWS::ECR::Repository",
            "Properties": {
                "ImageTagMutability": "IMMUTABLE",
                "ImageScanningConfiguration": {"ScanOnPush": True},
            },
        },
        "Files": {
            "Type": _FSX,
            "Properties": {
                "StorageCapacity": 2400,
                "KmsKeyId": "key",
                "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
            },
        },
        "Bucket": {
            "Type": _BUCKET,
            "Properties": {
                "PublicAccessBlockConfiguration": {
                    "BlockPublicAcls": True,
                    "BlockPublicPolicy": True,
                    "IgnorePublicAcls": True,
                    "RestrictPublicBuckets": True,
                }
            },
        },
        "BucketPolicy": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {
                "Bucket": {"Ref": "Bucket"},
                "PolicyDocument": {"Statement": [{"Effect": "Deny", "Action": "s3:*"}]},
            },
        },
        "Budget": {
            "Type": "AWS::Budgets::Budget",
            "Properties": {
                "NotificationsWithSubscribers": [{"Subscribers": [{"SubscriptionType": "EMAIL"}]}]
            },
        },
    }
}

BAD: tuple[tuple[str, str, Path, object], ...] = (
    ("bakery-closed", _BAKED_ON, ("InstanceMetadataOptions", "HttpTokens"), "optional"),
    ("bakery-closed", _BAKED_ON, ("InstanceMetadataOptions", "HttpPutResponseHopLimit"), 2),
    ("bakery-closed", _BAKED_ON, ("SubnetId",), GONE),
    ("bakery-closed", _BAKED_ON, ("SecurityGroupIds",), []),
    ("bakery-closed", _BAKED_ON, ("KeyPair",), "mine"),
    ("bakery-closed", _BAKED_ON, ("TerminateInstanceOnFailure",), False),
    ("bakery-components", _COMPONENT, ("Data",), _SOUND_COMPONENT.replace("checksum", "sum")),
    ("bakery-components", _COMPONENT, ("Data",), "a: [b"),
    ("bakery-components", _COMPONENT, ("Data",), "nothing"),
    ("bakery-disks-encrypted", _RECIPE, ("BlockDeviceMappings", 0, "Ebs", "Encrypted"), False),
    ("bakery-disks-encrypted", _RECIPE, ("BlockDeviceMappings",), GONE),
    ("bakery-tested", _PIPELINE, ("ImageTestsConfiguration", "ImageTestsEnabled"), False),
    ("bakery-tested", _PIPELINE, ("Schedule",), {"ScheduleExpression": "rate(1 day)"}),
    (
        "bakery-tested",
        _DISTRIBUTION,
        ("Distributions", 0, "AmiDistributionConfiguration", "LaunchPermissionConfiguration"),
        {"UserGroups": ["all"]},
    ),
    ("batch-any-number-of-nodes", _JOB, ("NodeProperties", "NodeRangeProperties", 0, "TargetNodes"), "0:1"),
    ("batch-groups-in-template", _COMPUTE, (*_POOL, "SecurityGroupIds"), []),
    # BI-152: another registry, by digest too; another account's; and one that a parameter would choose.
    ("batch-image-is-ours", _JOB, (*_CONTAINER, "Image"), "docker.io/library/python@sha256:" + "0" * 64),
    ("batch-image-is-ours", _JOB, (*_CONTAINER, "Image"), "1.dkr.ecr.us-east-1.amazonaws.com/gaudi:0123"),
    ("batch-image-is-ours", _JOB, (*_CONTAINER, "Image"), {"Ref": "Chosen"}),
    ("batch-image-is-ours", _JOB, (*_CONTAINER, "Image"), {"Fn::Join": ["/", ["evil.example", _REPOSITORY]]}),
    ("batch-image-is-ours", _JOB, (*_CONTAINER, "Image"), GONE),
    ("batch-image-never-moves", _JOB, (*_CONTAINER, "Image"), "docker.io/library/python:3.11"),
    (
        "batch-image-never-moves",
        _JOB,
        (*_CONTAINER, "Image"),
        "1.dkr.ecr.us-east-1.amazonaws.com/gaudi:latest",
    ),
    ("batch-image-never-moves", _JOB, (*_CONTAINER, "Image"), "1.dkr.ecr.us-east-1.amazonaws.com/gaudi"),
    ("batch-job-ends", _JOB, ("Timeout",), GONE),
    ("batch-memory-registers", _JOB, (*_CONTAINER, "ResourceRequirements", 0, "Value"), "760000"),
    ("batch-memory-registers", _JOB, (*_CONTAINER, "InstanceType"), GONE),
    ("batch-multi-node-on-demand", _COMPUTE, (*_POOL, "Type"), "SPOT"),
    ("batch-multi-node-on-demand", _COMPUTE, (*_POOL, "Type"), "FARGATE"),
    ("batch-multi-node-on-demand", _COMPUTE, ("Type",), "UNMANAGED"),
    ("batch-no-secrets", _JOB, (*_CONTAINER, "Environment", 0), {"Name": "HF_TOKEN", "Value": "x"}),
    ("batch-no-secrets", _JOB, (*_CONTAINER, "Environment", 0, "Value"), "AKIA" + "A" * 16),
    ("batch-not-privileged", _JOB, (*_CONTAINER, "Privileged"), True),
    ("batch-nothing-idle", _COMPUTE, (*_POOL, "MinvCpus"), 96),
    ("batch-queue-never-blocks", _QUEUE, ("JobStateTimeLimitActions", 0), GONE),
    ("batch-queue-never-blocks", _QUEUE, ("JobStateTimeLimitActions", 0, "MaxTimeSeconds"), 599),
    ("batch-queue-never-blocks", _QUEUE, ("JobStateTimeLimitActions", 0, "MaxTimeSeconds"), 86401),
    ("batch-queue-never-blocks", _QUEUE, ("JobStateTimeLimitActions", 0, "Action"), "TERMINATE"),
    ("batch-retries-chosen", _JOB, ("RetryStrategy", "EvaluateOnExit", 2), GONE),
    ("batch-retries-chosen", _JOB, ("RetryStrategy", "EvaluateOnExit", 0), GONE),
    ("batch-retries-chosen", _JOB, ("RetryStrategy", "EvaluateOnExit", 1), GONE),
    ("batch-rights-apart", _JOB, (*_CONTAINER, "JobRoleArn"), {"Fn::GetAtt": ["NodeRole", "Arn"]}),
    ("batch-rights-apart", _JOB, (*_CONTAINER, "JobRoleArn"), {"Fn::GetAtt": ["ExecutionRole", "Arn"]}),
    ("batch-rights-apart", _JOB, (*_CONTAINER, "ExecutionRoleArn"), GONE),
    ("batch-room-for-nodes", _COMPUTE, (*_POOL, "MaxvCpus"), 191),
    ("batch-template-version", _COMPUTE, (*_POOL, "LaunchTemplate", "Version"), GONE),
    ("batch-template-version", _COMPUTE, (*_POOL, "LaunchTemplate", "Version"), "$Latest"),
    ("bucket-not-public", _BUCKET, ("PublicAccessBlockConfiguration", "BlockPublicAcls"), False),
    ("bucket-not-public", "AWS::S3::BucketPolicy", ("Bucket",), {"Ref": "Another"}),
    ("budget-tells", "AWS::Budgets::Budget", ("NotificationsWithSubscribers",), []),
    ("efa-groups", _IN, ("SourceSecurityGroupId",), {"Fn::GetAtt": ["Another", "GroupId"]}),
    ("efa-groups", _OUT, ("DestinationSecurityGroupId",), GONE),
    ("efa-groups", _OUT, ("IpProtocol",), "tcp"),
    ("efa-groups", _TEMPLATE, (*_DATA, "NetworkInterfaces", 1, "Groups"), [{"Fn::ImportValue": "group"}]),
    ("efa-interfaces", _TEMPLATE, (*_DATA, "NetworkInterfaces"), [_interface(card) for card in range(5)]),
    ("efa-interfaces", _TEMPLATE, (*_DATA, "NetworkInterfaces", 2, "InterfaceType"), "efax"),
    ("efa-interfaces", _TEMPLATE, (*_DATA, "NetworkInterfaces", 3, "NetworkCardIndex"), 2),
    ("efa-interfaces", _TEMPLATE, (*_DATA, "NetworkInterfaces", 1, "DeviceIndex"), 0),
    ("efa-interfaces", _COMPUTE, (*_POOL, "InstanceTypes"), ["c6i.16xlarge"]),
    ("efa-together", _COMPUTE, (*_POOL, "Subnets"), [{"Ref": "Subnet"}, {"Ref": "Another"}]),
    ("efa-together", _COMPUTE, (*_POOL, "PlacementGroup"), GONE),
    ("efa-together", "AWS::EC2::PlacementGroup", ("Strategy",), "spread"),
    ("files-encrypted", _FSX, ("KmsKeyId",), GONE),
    ("efa-interfaces", _TEMPLATE, (*_DATA, "InstanceType"), "c6i.16xlarge"),
    ("group-close", _MACHINE, ("PlacementGroup",), GONE),
    ("group-close", "AWS::EC2::PlacementGroup", ("Strategy",), "spread"),
    ("group-close", _MACHINE, ("VPCZoneIdentifier",), [{"Ref": "Subnet"}, {"Ref": "Another"}]),
    ("group-cpu-options", _TEMPLATE, _DATA, _metal({"CoreCount": 64, "ThreadsPerCore": 1})),
    ("group-ends-no-job", _MACHINE, ("<UpdatePolicy>",), {"AutoScalingRollingUpdate": {"MaxBatchSize": 1}}),
    (
        "group-ends-no-job",
        _MACHINE,
        ("<UpdatePolicy>",),
        {"AutoScalingReplacingUpdate": {"WillReplace": True}},
    ),
    ("group-one-thread", _TEMPLATE, (*_DATA, "InstanceType"), "c6i.32xlarge"),
    ("group-one-thread", _TEMPLATE, _DATA, _two_threads("c6i.16xlarge")),
    ("group-template-version", _MACHINE, ("LaunchTemplate", "Version"), GONE),
    ("group-template-version", _MACHINE, ("LaunchTemplate", "Version"), "$Latest"),
    ("image-tags-immutable", "AWS::ECR::Repository", ("ImageTagMutability",), "MUTABLE"),
    ("image-tags-immutable", "AWS::ECR::Repository", ("ImageScanningConfiguration",), GONE),
    ("logs-end-encrypted", "AWS::Logs::LogGroup", ("RetentionInDays",), GONE),
    ("logs-end-encrypted", "AWS::Logs::LogGroup", ("KmsKeyId",), GONE),
    ("lustre-steps", _FSX, ("StorageCapacity",), 1300),
    ("lustre-steps", _FSX, ("StorageCapacity",), 3600),
    ("lustre-steps", _FSX, ("LustreConfiguration", "PerUnitStorageThroughput"), 77),
    ("lustre-steps", _FSX, ("LustreConfiguration", "DeploymentType"), "SCRATCH_2"),
    ("node-disks-encrypted", _TEMPLATE, (*_DATA, "BlockDeviceMappings", 0, "Ebs", "Encrypted"), False),
    ("node-disks-encrypted", _TEMPLATE, (*_DATA, "BlockDeviceMappings"), GONE),
    ("node-metadata-tokens", _TEMPLATE, (*_DATA, "MetadataOptions", "HttpTokens"), "optional"),
    ("node-metadata-tokens", _TEMPLATE, (*_DATA, "MetadataOptions", "HttpPutResponseHopLimit"), 2),
    ("node-no-key-pair", _TEMPLATE, (*_DATA, "KeyName"), "mine"),
    ("node-no-public-address", _TEMPLATE, (*_DATA, "NetworkInterfaces", 0, "AssociatePublicIpAddress"), True),
    ("node-no-public-address", "AWS::EC2::Subnet", ("MapPublicIpOnLaunch",), True),
    ("nothing-hidden", "AWS::EC2::Subnet", ("<type>",), "Custom::Emptier"),
    ("nothing-hidden", "AWS::EC2::Subnet", ("<type>",), "AWS::Lambda::Function"),
    ("policy-actions", _POLICY, ("PolicyDocument", "Statement", 0, "Action"), "ecr:*"),
    ("policy-actions", _POLICY, ("PolicyDocument", "Statement", 0, "Action"), ["s3:GetObject", "*"]),
    ("policy-actions", _POLICY, ("PolicyDocument", "Statement", 0, "NotAction"), "iam:*"),
    ("policy-any-resource", _POLICY, ("PolicyDocument", "Statement", 0, "Action"), "s3:GetObject"),
    ("policy-no-full-access", _ROLE, ("ManagedPolicyArns",), ["arn:aws:iam::aws:policy/AmazonS3FullAccess"]),
    ("traffic-egress-said", _GROUP, ("SecurityGroupEgress",), GONE),
    ("traffic-https-out", _GROUP, ("SecurityGroupEgress", 0, "ToPort"), 65535),
    ("traffic-no-internet-in", _GROUP, ("SecurityGroupIngress", 0, "CidrIp"), "0.0.0.0/0"),
    ("traffic-no-internet-in", _IN, ("CidrIpv6",), "::/0"),
    ("traffic-no-ssh", _GROUP, ("SecurityGroupIngress", 0, "FromPort"), 20),
    ("traffic-no-ssh", _GROUP, ("SecurityGroupIngress", 0), {"IpProtocol": "-1", "CidrIp": "10.0.0.0/8"}),
    ("traffic-no-internet-in", _GROUP, ("SecurityGroupIngress", 0, "CidrIp"), "128.0.0.0/1"),
    ("traffic-https-out", _GROUP, ("SecurityGroupEgress", 0), {"IpProtocol": "-1", "CidrIp": "0.0.0.0/1"}),
    ("trust-host-keys", _TEMPLATE, (*_DATA, "UserData"), "ssh -o StrictHostKeyChecking=no ip-10-30-0-5"),
    ("trust-host-keys", _TEMPLATE, (*_DATA, "UserData"), {"Fn::Base64": "StrictHostKeyChecking accept-new"}),
    ("trust-host-keys", _DOCUMENT, ("Content",), {"run": "ssh -o UserKnownHostsFile=/dev/null -- x"}),
    ("trust-secrets-closed", _SECRET, ("KmsKeyId",), GONE),
    ("trust-secrets-closed", _SECRET, ("SecretString",), "in plain sight"),
    ("trust-secrets-closed", _SECRET, ("GenerateSecretString",), GONE),
    ("trust-secrets-closed", _SECRET_POLICY, ("BlockPublicPolicy",), False),
    ("trust-secrets-closed", _SECRET_POLICY, ("SecretId",), {"Ref": "Another"}),
    ("policy-actions", _SECRET_POLICY, ("ResourcePolicy", "Statement"), {"Effect": "Allow", "Action": "*"}),
)


def changed(resource_type: str, path: Path, value: object) -> dict[str, Any]:
    """GOOD with one thing wrong."""
    template: dict[str, Any] = copy.deepcopy(dict(GOOD))
    (resource,) = [each for each in template["Resources"].values() if each["Type"] == resource_type]
    if path == ("<type>",):
        resource["Type"] = value
        return template
    if path == ("<UpdatePolicy>",):
        resource["UpdatePolicy"] = value
        return template
    place: Any = resource["Properties"]
    for step in path[:-1]:
        place = place[step]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return template
