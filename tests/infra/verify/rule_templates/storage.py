"""Buckets, file systems, logs and repositories: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import GONE, BadRow

FSX = "AWS::FSx::FileSystem"
BUCKET = "AWS::S3::Bucket"


GOOD: Mapping[str, Any] = {
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

BAD: tuple[BadRow, ...] = (
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
