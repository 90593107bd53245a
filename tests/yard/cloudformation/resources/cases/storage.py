"""Where data, images and their builds are."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import OTHER_TAGS, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import World


def bucket(world: World) -> Case:
    key = world.key().attribute("Arn")
    return Case(
        properties={
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {
                        "BucketKeyEnabled": True,
                        "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key},
                    }
                ]
            },
            "LifecycleConfiguration": {
                "Rules": [
                    {
                        "Id": "old",
                        "Status": "Enabled",
                        "Prefix": "checkpoints/",
                        "ExpirationInDays": 90,
                        "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
                        "Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": 60}],
                    }
                ]
            },
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            },
            "Tags": TAGS,
            "VersioningConfiguration": {"Status": "Enabled"},
        },
        change={"VersioningConfiguration": {"Status": "Suspended"}, "Tags": OTHER_TAGS},
    )


def bucket_policy(world: World) -> Case:
    name = world.bucket()
    deny = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    document = {"Version": "2012-10-17", "Statement": [deny]}
    return Case(
        properties={"Bucket": name, "PolicyDocument": document},
        change={"PolicyDocument": {**document, "Statement": [deny, {**deny, "Action": "s3:PutObject"}]}},
    )


def repository(_world: World) -> Case:
    rule = '{"rules":[{"rulePriority":1,"selection":{"tagStatus":"untagged","countType":"sinceImagePushed",\
"countUnit":"days","countNumber":14},"action":{"type":"expire"}}]}'
    return Case(
        properties={
            "RepositoryName": "slipway/trial",
            "EmptyOnDelete": True,
            "ImageScanningConfiguration": {"ScanOnPush": True},
            "ImageTagMutability": "IMMUTABLE",
            "LifecyclePolicy": {"LifecyclePolicyText": rule},
            "Tags": TAGS,
        },
        change={"ImageTagMutability": "MUTABLE", "LifecyclePolicy": None, "Tags": OTHER_TAGS},
    )


def project(world: World) -> Case:
    return Case(
        properties={
            "Artifacts": {"Type": "NO_ARTIFACTS"},
            "Description": "builds the image",
            "Environment": {
                "ComputeType": "BUILD_GENERAL1_LARGE",
                "Image": "aws/codebuild/amazonlinux2-x86_64-standard:5.0",
                "PrivilegedMode": True,
                "Type": "LINUX_CONTAINER",
                "EnvironmentVariables": [{"Name": "IMAGE", "Value": "gaudi"}],
            },
            "ServiceRole": world.role().attribute("Arn"),
            "Source": {"Type": "S3", "Location": "bucket/source.zip"},
            "TimeoutInMinutes": 60,
        },
        change={"Description": "builds and pushes the image"},
    )


def efs(_world: World) -> Case:
    return Case(
        properties={
            "Encrypted": True,
            "PerformanceMode": "generalPurpose",
            "ThroughputMode": "elastic",
            "BackupPolicy": {"Status": "ENABLED"},
            "LifecyclePolicies": [{"TransitionToIA": "AFTER_30_DAYS"}],
            "FileSystemTags": TAGS,
        },
        change={"FileSystemTags": OTHER_TAGS, "LifecyclePolicies": [{"TransitionToIA": "AFTER_7_DAYS"}]},
    )


def mount_target(world: World) -> Case:
    other = world.make("AWS::EC2::SecurityGroup", GroupDescription="other", VpcId=world.vpc())
    return Case(
        properties={
            "FileSystemId": world.file_system(),
            "SubnetId": world.subnet(),
            "SecurityGroups": [world.security_group()],
        },
        change={"SecurityGroups": [other.id]},
    )


def access_point(world: World) -> Case:
    return Case(
        properties={
            "FileSystemId": world.file_system(),
            "PosixUser": {"Uid": "1000", "Gid": "1000"},
            "RootDirectory": {
                "Path": "/data",
                "CreationInfo": {"OwnerUid": "1000", "OwnerGid": "1000", "Permissions": "755"},
            },
            "AccessPointTags": TAGS,
        },
        change={"AccessPointTags": OTHER_TAGS},
    )


def lustre(world: World) -> Case:
    return Case(
        properties={
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 1200,
            "SubnetIds": [world.subnet()],
            "SecurityGroupIds": [world.security_group()],
            "LustreConfiguration": {
                "DeploymentType": "PERSISTENT_2",
                "PerUnitStorageThroughput": 125,
                "DataCompressionType": "LZ4",
            },
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def data_repository(world: World) -> Case:
    return Case(
        properties={
            "FileSystemId": world.lustre(),
            "FileSystemPath": "/data",
            "DataRepositoryPath": "s3://bucket/data",
            "BatchImportMetaDataOnCreate": True,
        },
        change={"S3": {"AutoImportPolicy": {"Events": ["NEW"]}}},
    )


CASES: Cases = {
    "AWS::S3::Bucket": bucket,
    "AWS::S3::BucketPolicy": bucket_policy,
    "AWS::ECR::Repository": repository,
    "AWS::CodeBuild::Project": project,
    "AWS::EFS::FileSystem": efs,
    "AWS::EFS::MountTarget": mount_target,
    "AWS::EFS::AccessPoint": access_point,
    "AWS::FSx::FileSystem": lustre,
    "AWS::FSx::DataRepositoryAssociation": data_repository,
}
