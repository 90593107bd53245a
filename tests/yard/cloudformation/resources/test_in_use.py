"""What AWS refuses to delete, the yard refuses; moto lets much of it go."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.world import TRUST, World

MANIFEST = '{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}'


def refusal(made: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        made.delete()
    return refused.value


def test_a_vpc_with_a_subnet_stays(world: World) -> None:
    vpc = world.make("AWS::EC2::VPC", CidrBlock="10.40.0.0/16")
    world.make("AWS::EC2::Subnet", VpcId=vpc.id, CidrBlock="10.40.1.0/24")
    assert refusal(vpc).code == "DependencyViolation"


def test_a_vpc_with_a_gateway_stays(world: World) -> None:
    vpc = world.make("AWS::EC2::VPC", CidrBlock="10.40.0.0/16")
    gateway = world.make("AWS::EC2::InternetGateway")
    world.make("AWS::EC2::VPCGatewayAttachment", VpcId=vpc.id, InternetGatewayId=gateway.id)
    refused = refusal(vpc)
    assert refused.code == "DependencyViolation"
    assert gateway.id in refused.message


def test_a_vpc_with_a_security_group_stays(world: World) -> None:
    vpc = world.make("AWS::EC2::VPC", CidrBlock="10.40.0.0/16")
    group = world.make("AWS::EC2::SecurityGroup", GroupDescription="x", VpcId=vpc.id)
    assert group.id in refusal(vpc).message


def test_a_subnet_and_a_group_in_use_by_a_mount_target_stay(world: World) -> None:
    target = world.make(
        "AWS::EFS::MountTarget",
        FileSystemId=world.file_system(),
        SubnetId=world.subnet(),
        SecurityGroups=[world.security_group()],
    )
    users = {"AWS::EC2::Subnet": world.subnet(), "AWS::EC2::SecurityGroup": world.security_group()}
    for made in [made for made in world.made if made.id in users.values()]:
        assert refusal(made).code == "DependencyViolation"
    target.delete()


def test_a_bucket_with_an_object_stays(world: World) -> None:
    bucket = world.make("AWS::S3::Bucket")
    s3 = world.client("s3")
    s3.put_object(Bucket=bucket.id, Key="checkpoint", Body=b"x")
    assert refusal(bucket).code == "BucketNotEmpty"
    s3.delete_object(Bucket=bucket.id, Key="checkpoint")


def test_a_repository_with_an_image_stays_unless_told_to_empty_it(world: World) -> None:
    ecr = world.client("ecr")
    repository = world.make("AWS::ECR::Repository")
    ecr.put_image(repositoryName=repository.id, imageManifest=MANIFEST, imageTag="1")
    assert refusal(repository).code == "RepositoryNotEmptyException"
    repository.update(EmptyOnDelete=True)
    repository.delete()
    assert repository.id not in [
        found["repositoryName"] for found in ecr.describe_repositories()["repositories"]
    ]


def test_a_role_with_a_policy_of_somebody_else_stays(world: World) -> None:
    role = world.make("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST)
    foreign = {"RoleName": role.id, "PolicyArn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}
    world.client("iam").attach_role_policy(**foreign)
    assert refusal(role).code == "DeleteConflict"
    world.client("iam").detach_role_policy(**foreign)


def test_a_compute_environment_stays_while_a_queue_uses_it(world: World) -> None:
    environment = world.compute_environment()
    order = [{"ComputeEnvironment": environment, "Order": 1}]
    world.make("AWS::Batch::JobQueue", Priority=1, ComputeEnvironmentOrder=order)
    made = next(made for made in world.made if made.id == environment)
    assert "existing JobQueue relationship" in refusal(made).message
