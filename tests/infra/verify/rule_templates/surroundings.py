"""Good and bad templates of what surrounds jobs: permissions, networks, storage, messages, bakeries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import (
    DATA,
    GONE,
    IN,
    OUT,
    SELF,
    TEMPLATE,
    BadRow,
)

# Policies, secrets, hidden code and the budget.
ROLE = "AWS::IAM::Role"
POLICY = "AWS::IAM::ManagedPolicy"
SECRET = "AWS::SecretsManager::Secret"
SECRET_POLICY = "AWS::SecretsManager::ResourcePolicy"
DOCUMENT = "AWS::SSM::Document"
_IN_THE_GROUP = {"Fn::Join": ["", ["arn:aws:ec2:us-east-1:123456789012:security-group/", SELF]]}


ACCESS: Mapping[str, Any] = {
    "Secret": {"Type": SECRET, "Properties": {"KmsKeyId": "key", "GenerateSecretString": {}}},
    "SecretPolicy": {
        "Type": SECRET_POLICY,
        "Properties": {
            "SecretId": {"Ref": "Secret"},
            "BlockPublicPolicy": True,
            "ResourcePolicy": {"Statement": [{"Effect": "Deny", "Action": "secretsmanager:GetSecretValue"}]},
        },
    },
    "Document": {
        "Type": DOCUMENT,
        "Properties": {"Content": {"mainSteps": [{"inputs": {"runCommand": ["exec run"]}}]}},
    },
    "Policy": {
        "Type": POLICY,
        "Properties": {
            "PolicyDocument": {
                "Statement": [
                    {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
                    {"Effect": "Allow", "Action": "ec2:CreateNetworkInterface", "Resource": [_IN_THE_GROUP]},
                ]
            }
        },
    },
    "Budget": {
        "Type": "AWS::Budgets::Budget",
        "Properties": {
            "Budget": {"CostFilters": {"TagKeyValue": ["user:slipway:cluster$dl1"]}},
            "NotificationsWithSubscribers": [{"Subscribers": [{"SubscriptionType": "EMAIL"}]}],
        },
    },
}

BAD_ACCESS: tuple[BadRow, ...] = (
    ("budget-counts", "AWS::Budgets::Budget", ("Budget", "CostFilters"), {}),
    ("budget-counts", "AWS::Budgets::Budget", ("Budget", "CostFilters", "TagKeyValue"), ["user:team$a"]),
    ("budget-tells", "AWS::Budgets::Budget", ("NotificationsWithSubscribers",), []),
    ("nothing-hidden", "AWS::EC2::Subnet", ("<type>",), "Custom::Emptier"),
    ("nothing-hidden", "AWS::EC2::Subnet", ("<type>",), "AWS::Lambda::Function"),
    ("policy-actions", POLICY, ("PolicyDocument", "Statement", 0, "Action"), "ecr:*"),
    ("policy-actions", POLICY, ("PolicyDocument", "Statement", 0, "Action"), ["s3:GetObject", "*"]),
    ("policy-actions", POLICY, ("PolicyDocument", "Statement", 0, "NotAction"), "iam:*"),
    ("policy-any-resource", POLICY, ("PolicyDocument", "Statement", 0, "Action"), "s3:GetObject"),
    ("policy-no-full-access", ROLE, ("ManagedPolicyArns",), ["arn:aws:iam::aws:policy/AmazonS3FullAccess"]),
    ("trust-host-keys", TEMPLATE, (*DATA, "UserData"), "ssh -o StrictHostKeyChecking=no ip-10-30-0-5"),
    ("trust-host-keys", TEMPLATE, (*DATA, "UserData"), {"Fn::Base64": "StrictHostKeyChecking accept-new"}),
    ("trust-host-keys", DOCUMENT, ("Content",), {"run": "ssh -o UserKnownHostsFile=/dev/null -- x"}),
    ("trust-secrets-closed", SECRET, ("KmsKeyId",), GONE),
    ("trust-secrets-closed", SECRET, ("SecretString",), "in plain sight"),
    ("trust-secrets-closed", SECRET, ("GenerateSecretString",), GONE),
    ("trust-secrets-closed", SECRET_POLICY, ("BlockPublicPolicy",), False),
    ("trust-secrets-closed", SECRET_POLICY, ("SecretId",), {"Ref": "Another"}),
    ("policy-actions", SECRET_POLICY, ("ResourcePolicy", "Statement"), {"Effect": "Allow", "Action": "*"}),
)


# Security groups and subnets.
GROUP = "AWS::EC2::SecurityGroup"


NETWORK: Mapping[str, Any] = {
    "Group": {
        "Type": GROUP,
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
        "Type": IN,
        "Properties": {"IpProtocol": "-1", "GroupId": SELF, "SourceSecurityGroupId": SELF},
    },
    "SelfOut": {
        "Type": OUT,
        "Properties": {"IpProtocol": "-1", "GroupId": SELF, "DestinationSecurityGroupId": SELF},
    },
    "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"MapPublicIpOnLaunch": False}},
}

BAD_NETWORK: tuple[BadRow, ...] = (
    ("traffic-egress-said", GROUP, ("SecurityGroupEgress",), GONE),
    ("traffic-https-out", GROUP, ("SecurityGroupEgress", 0, "ToPort"), 65535),
    ("traffic-no-internet-in", GROUP, ("SecurityGroupIngress", 0, "CidrIp"), "0.0.0.0/0"),
    ("traffic-no-internet-in", IN, ("CidrIpv6",), "::/0"),
    ("traffic-no-ssh", GROUP, ("SecurityGroupIngress", 0, "FromPort"), 20),
    (
        "traffic-no-ssh",
        GROUP,
        ("SecurityGroupIngress", 0),
        {"IpProtocol": "-1", "CidrIp": "10.0.0.0/8"},
    ),
    ("traffic-no-internet-in", GROUP, ("SecurityGroupIngress", 0, "CidrIp"), "128.0.0.0/1"),
    (
        "traffic-https-out",
        GROUP,
        ("SecurityGroupEgress", 0),
        {"IpProtocol": "-1", "CidrIp": "0.0.0.0/1"},
    ),
)


# Buckets, file systems, logs and repositories.
FSX = "AWS::FSx::FileSystem"
BUCKET = "AWS::S3::Bucket"


STORAGE: Mapping[str, Any] = {
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
        "Type": FSX,
        "Properties": {
            "StorageCapacity": 2400,
            "KmsKeyId": "key",
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
        },
    },
    "Bucket": {
        "Type": BUCKET,
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
}

BAD_STORAGE: tuple[BadRow, ...] = (
    ("bucket-not-public", BUCKET, ("PublicAccessBlockConfiguration", "BlockPublicAcls"), False),
    ("bucket-not-public", "AWS::S3::BucketPolicy", ("Bucket",), {"Ref": "Another"}),
    ("files-encrypted", FSX, ("KmsKeyId",), GONE),
    ("image-tags-immutable", "AWS::ECR::Repository", ("ImageTagMutability",), "MUTABLE"),
    ("image-tags-immutable", "AWS::ECR::Repository", ("ImageScanningConfiguration",), GONE),
    ("logs-end-encrypted", "AWS::Logs::LogGroup", ("RetentionInDays",), GONE),
    ("logs-end-encrypted", "AWS::Logs::LogGroup", ("KmsKeyId",), GONE),
    ("lustre-steps", FSX, ("StorageCapacity",), 1300),
    ("lustre-steps", FSX, ("StorageCapacity",), 3600),
    ("lustre-steps", FSX, ("LustreConfiguration", "PerUnitStorageThroughput"), 77),
    ("lustre-steps", FSX, ("LustreConfiguration", "DeploymentType"), "SCRATCH_2"),
)


# An alarm and a rule that publish to an encrypted topic.
TOPIC = "AWS::SNS::Topic"
TOPIC_POLICY = "AWS::SNS::TopicPolicy"
KEY = "AWS::KMS::Key"
ALARM = "AWS::CloudWatch::Alarm"
RULE = "AWS::Events::Rule"
BUDGET = "AWS::Budgets::Budget"
ACCOUNT = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
USE = ["kms:Decrypt", "kms:GenerateDataKey*"]
PUBLISH = {"Effect": "Allow", "Action": "sns:Publish", "Resource": {"Ref": "Topic"}}


def allow(service: str, **rest: Any) -> dict[str, Any]:
    return {"Principal": {"Service": f"{service}.amazonaws.com"}, **rest}


DELIVERY: Mapping[str, Any] = {
    "Topic": {"Type": TOPIC, "Properties": {"KmsMasterKeyId": {"Fn::GetAtt": ["TopicKey", "Arn"]}}},
    "TopicPolicy": {
        "Type": TOPIC_POLICY,
        "Properties": {
            "Topics": [{"Ref": "Topic"}],
            "PolicyDocument": {
                "Statement": [
                    allow("cloudwatch", **PUBLISH, Condition=ACCOUNT),
                    allow("events", **PUBLISH),
                    {"Effect": "Deny", "Principal": "*", "Action": "sns:Publish", "Resource": "*"},
                ]
            },
        },
    },
    "TopicKey": {
        "Type": KEY,
        "Properties": {
            "KeyPolicy": {
                "Statement": [
                    allow("cloudwatch", Effect="Allow", Action=USE, Resource="*", Condition=ACCOUNT),
                    allow("events", Effect="Allow", Action=USE, Resource="*"),
                ]
            }
        },
    },
    "Alarm": {"Type": ALARM, "Properties": {"AlarmActions": [{"Ref": "Topic"}]}},
    "Rule": {"Type": RULE, "Properties": {"Targets": [{"Id": "Mail", "Arn": {"Ref": "Topic"}}]}},
}

_TOPIC_STATEMENTS = ("PolicyDocument", "Statement")
_KEY_STATEMENTS = ("KeyPolicy", "Statement")
_MAIL = [{"Subscribers": [{"SubscriptionType": "EMAIL"}, {"Address": {"Ref": "Topic"}}]}]

BAD_DELIVERY: tuple[BadRow, ...] = (
    ("delivery-topic", TOPIC_POLICY, (*_TOPIC_STATEMENTS, 0, "Principal"), {"Service": "s3.amazonaws.com"}),
    ("delivery-topic", TOPIC_POLICY, (*_TOPIC_STATEMENTS, 0, "Effect"), "Deny"),
    ("delivery-topic", TOPIC_POLICY, (*_TOPIC_STATEMENTS, 1, "Action"), "sns:Subscribe"),
    ("delivery-topic", TOPIC_POLICY, ("Topics",), [{"Ref": "Another"}]),
    ("delivery-topic", BUDGET, ("NotificationsWithSubscribers",), _MAIL),
    ("delivery-key", KEY, (*_KEY_STATEMENTS, 0, "Principal"), GONE),
    ("delivery-key", KEY, (*_KEY_STATEMENTS, 1, "Action"), ["kms:Decrypt"]),
    ("delivery-key", TOPIC, ("KmsMasterKeyId",), "alias/aws/sns"),
    ("delivery-key-source", KEY, (*_KEY_STATEMENTS, 1, "Condition"), ACCOUNT),
    (
        "delivery-key-source",
        KEY,
        (*_KEY_STATEMENTS, 1, "Condition"),
        {"ArnLike": {"AWS:SourceArn": "arn:aws:events:*:*:rule/*"}},
    ),
)


# Bakeries of machine images.
COMPONENT = "AWS::ImageBuilder::Component"
RECIPE = "AWS::ImageBuilder::ImageRecipe"
BAKED_ON = "AWS::ImageBuilder::InfrastructureConfiguration"
PIPELINE = "AWS::ImageBuilder::ImagePipeline"
DISTRIBUTION = "AWS::ImageBuilder::DistributionConfiguration"
SOUND_COMPONENT = """
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


BAKERIES: Mapping[str, Any] = {
    "Component": {"Type": COMPONENT, "Properties": {"Data": SOUND_COMPONENT}},
    "Recipe": {
        "Type": RECIPE,
        "Properties": {"BlockDeviceMappings": [{"Ebs": {"Encrypted": True}}]},
    },
    "BakedOn": {
        "Type": BAKED_ON,
        "Properties": {
            "InstanceMetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "SubnetId": {"Ref": "Subnet"},
            "SecurityGroupIds": [{"Ref": "Group"}],
            "TerminateInstanceOnFailure": True,
        },
    },
    "Pipeline": {
        "Type": PIPELINE,
        "Properties": {"ImageTestsConfiguration": {"ImageTestsEnabled": True}},
    },
    "Distribution": {
        "Type": DISTRIBUTION,
        "Properties": {"Distributions": [{"AmiDistributionConfiguration": {"Name": "image"}}]},
    },
}

BAD_BAKERIES: tuple[BadRow, ...] = (
    ("bakery-closed", BAKED_ON, ("InstanceMetadataOptions", "HttpTokens"), "optional"),
    ("bakery-closed", BAKED_ON, ("InstanceMetadataOptions", "HttpPutResponseHopLimit"), 2),
    ("bakery-closed", BAKED_ON, ("SubnetId",), GONE),
    ("bakery-closed", BAKED_ON, ("SecurityGroupIds",), []),
    ("bakery-closed", BAKED_ON, ("KeyPair",), "mine"),
    ("bakery-closed", BAKED_ON, ("TerminateInstanceOnFailure",), False),
    ("bakery-components", COMPONENT, ("Data",), SOUND_COMPONENT.replace("checksum", "sum")),
    ("bakery-components", COMPONENT, ("Data",), "a: [b"),
    ("bakery-components", COMPONENT, ("Data",), "nothing"),
    ("bakery-disks-encrypted", RECIPE, ("BlockDeviceMappings", 0, "Ebs", "Encrypted"), False),
    ("bakery-disks-encrypted", RECIPE, ("BlockDeviceMappings",), GONE),
    ("bakery-tested", PIPELINE, ("ImageTestsConfiguration", "ImageTestsEnabled"), False),
    ("bakery-tested", PIPELINE, ("Schedule",), {"ScheduleExpression": "rate(1 day)"}),
    (
        "bakery-tested",
        DISTRIBUTION,
        ("Distributions", 0, "AmiDistributionConfiguration", "LaunchPermissionConfiguration"),
        {"UserGroups": ["all"]},
    ),
)


GOOD: Mapping[str, Any] = {**ACCESS, **NETWORK, **STORAGE, **DELIVERY, **BAKERIES}
BAD: tuple[BadRow, ...] = (*BAD_ACCESS, *BAD_NETWORK, *BAD_STORAGE, *BAD_DELIVERY, *BAD_BAKERIES)
