"""The yard accepts what AWS accepts and public templates contain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.yard.cloudformation.resources.provider import Properties
from slipway.yard.cloudformation.template import schemas
from slipway.yard.errors import ApiError
from tests.yard.asking import refusal
from tests.yard.cloudformation.resources.world import TRUST, World
from tests.yard.cloudformation.stacks import Stacks, typed

VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.40.0.0/16"}}
ANYWHERE = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}


def environment(world: World, **changes: Any) -> Properties:
    return {"Type": "MANAGED", "ComputeResources": world.compute_resources(), **changes}


def test_a_compute_environment_may_be_written_in_small_letters_as_the_cdk_does(world: World) -> None:
    small = {"Type": "managed", "ComputeResources": {**world.compute_resources(), "Type": "ec2"}}
    made = world.make("AWS::Batch::ComputeEnvironment", **small)
    found = world.client("batch").describe_compute_environments(computeEnvironments=[made.id])
    (shown,) = found["computeEnvironments"]
    assert (shown["type"], shown["computeResources"]["type"]) == ("MANAGED", "EC2")
    assert made.read() == made.properties


@pytest.mark.parametrize("named_by", ["name", "ARN"])
def test_the_service_role_of_a_compute_environment_is_a_name_or_an_arn(world: World, named_by: str) -> None:
    role = world.role()
    given = role.id if named_by == "name" else role.attribute("Arn")
    made = world.make("AWS::Batch::ComputeEnvironment", **environment(world, ServiceRole=given))
    found = world.client("batch").describe_compute_environments(computeEnvironments=[made.id])
    assert found["computeEnvironments"][0]["serviceRole"] == role.attribute("Arn")
    assert made.read() == made.properties


def test_a_gateway_endpoint_without_a_type_goes_with_its_stack(stacks: Stacks) -> None:
    service = {"Fn::Sub": "com.amazonaws.${AWS::Region}.s3"}
    table = typed("AWS::EC2::RouteTable", VpcId={"Ref": "Vpc"})
    endpoint = typed(
        "AWS::EC2::VPCEndpoint", VpcId={"Ref": "Vpc"}, ServiceName=service, RouteTableIds=[{"Ref": "Table"}]
    )
    made = stacks.create("net", {"Vpc": VPC, "Table": table, "Endpoint": endpoint})
    ec2 = stacks.yard.client("ec2")
    (shown,) = ec2.describe_vpc_endpoints(VpcEndpointIds=[made["Endpoint"]])["VpcEndpoints"]
    assert shown["VpcEndpointType"] == "Gateway"
    stacks.delete("net")
    assert refusal(ec2.describe_vpcs, VpcIds=[made["Vpc"]])["Code"] == "InvalidVpcID.NotFound"


def test_egress_that_repeats_the_default_rule_of_its_group_takes_it_over_and_inline_rules_are_one(
    stacks: Stacks,
) -> None:
    group = typed("AWS::EC2::SecurityGroup", GroupDescription="nodes", VpcId={"Ref": "Vpc"})
    egress = typed("AWS::EC2::SecurityGroupEgress", GroupId={"Ref": "Group"}, **ANYWHERE)
    twice = [{**ANYWHERE, "Description": "one"}, {**ANYWHERE, "Description": "two"}]
    inline = {**group, "Properties": {**group["Properties"], "SecurityGroupEgress": twice}}
    made = stacks.create("net", {"Vpc": VPC, "Group": group, "Egress": egress, "Inline": inline})
    ec2 = stacks.yard.client("ec2")
    mine = [{"Name": "group-id", "Values": [made["Group"]]}]
    rules = ec2.describe_security_group_rules(Filters=mine)["SecurityGroupRules"]
    assert [rule["SecurityGroupRuleId"] for rule in rules if rule["IsEgress"]] == [made["Egress"]]
    (shown,) = ec2.describe_security_groups(GroupIds=[made["Inline"]])["SecurityGroups"]
    assert len(shown["IpPermissionsEgress"]) == 1
    stacks.delete("net")
    network = [{"Name": "vpc-id", "Values": [made["Vpc"]]}]
    assert ec2.describe_network_acls(Filters=network)["NetworkAcls"] == []


def test_a_number_as_text_below_one_of_is_a_number_and_a_dynamic_reference_is_judged_when_resolved() -> None:
    volume = {"EbsVolumeConfig": {"VolumeSizeInGB": "500"}}
    group = {
        "InstanceGroupName": "workers",
        "InstanceType": "ml.t3.medium",
        "InstanceCount": "1",
        "ExecutionRole": "arn:aws:iam::123456789012:role/x",
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/y", "OnCreate": "run.sh"},
        "InstanceStorageConfigs": [volume],
    }
    assert schemas.check("AWS::SageMaker::Cluster", {"InstanceGroups": [group]}) == ()
    coerced = schemas.coerce("AWS::SageMaker::Cluster", {"InstanceGroups": [group]})
    sizes = [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}]
    assert coerced["InstanceGroups"][0]["InstanceStorageConfigs"] == sizes
    password = "{{resolve:secretsmanager:directory:SecretString:password}}"
    settings = {"VpcId": "vpc-12345678", "SubnetIds": ["subnet-12345678", "subnet-87654321"]}
    given = {"Name": "corp.example.com", "Password": password, "VpcSettings": settings}
    assert schemas.check("AWS::DirectoryService::MicrosoftAD", given) == ()


ROOT_DISK = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 30}}


@pytest.mark.parametrize("said_by", ["instance", "launch template"])
def test_a_root_volume_goes_with_its_instance_and_a_terminated_one_is_drift(
    world: World, said_by: str
) -> None:
    data: dict[str, Any] = {"ImageId": "ami-12c6146b", "InstanceType": "c6i.large"}
    if said_by == "instance":
        second = {"DeviceName": "/dev/sdb", "VirtualName": "ephemeral0"}
        given = {**data, "BlockDeviceMappings": [ROOT_DISK, second]}
    else:
        data["BlockDeviceMappings"] = [ROOT_DISK]
        template = world.make("AWS::EC2::LaunchTemplate", LaunchTemplateData=data)
        given = {"LaunchTemplate": {"LaunchTemplateId": template.id, "Version": "1"}}
    made = world.make("AWS::EC2::Instance", SubnetId=world.subnet(), **given)
    ec2, mine = world.client("ec2"), [{"Name": "attachment.instance-id", "Values": [made.id]}]
    held = {volume["VolumeId"] for volume in ec2.describe_volumes(Filters=mine)["Volumes"]}
    assert held
    assert made.read() is not None
    if said_by == "instance":
        made.delete()
    else:
        ec2.terminate_instances(InstanceIds=[made.id])
    assert made.read() is None
    assert not held & {volume["VolumeId"] for volume in ec2.describe_volumes()["Volumes"]}


def test_a_bucket_takes_cors_a_website_locks_and_every_kind_of_notification(world: World) -> None:
    queue = world.make("AWS::SQS::Queue").attribute("Arn")
    rules = [{"Name": "suffix", "Value": ".pt"}]
    told = [{"Event": "s3:ObjectCreated:*", "Queue": queue, "Filter": {"S3Key": {"Rules": rules}}}]
    made = world.make(
        "AWS::S3::Bucket",
        VersioningConfiguration={"Status": "Enabled"},
        ObjectLockEnabled=True,
        ObjectLockConfiguration={
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}},
        },
        CorsConfiguration={"CorsRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "MaxAge": 60}]},
        WebsiteConfiguration={"IndexDocument": "index.html", "ErrorDocument": "error.html"},
        NotificationConfiguration={"QueueConfigurations": told},
    )
    s3 = world.client("s3")
    assert s3.get_bucket_cors(Bucket=made.id)["CORSRules"][0]["MaxAgeSeconds"] == 60
    assert s3.get_bucket_website(Bucket=made.id)["IndexDocument"] == {"Suffix": "index.html"}
    (configured,) = s3.get_bucket_notification_configuration(Bucket=made.id)["QueueConfigurations"]
    assert configured["QueueArn"] == queue


def test_a_policy_needs_no_version(world: World) -> None:
    statement = [{"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}]
    inline = [{"PolicyName": "list", "PolicyDocument": {"Statement": statement}}]
    role = world.make("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST, Policies=inline)
    trusting = {"Statement": TRUST["Statement"]}
    world.make("AWS::IAM::Role", AssumeRolePolicyDocument=trusting)
    world.make("AWS::IAM::ManagedPolicy", PolicyDocument={"Statement": statement})
    world.make(
        "AWS::IAM::Policy", PolicyName="more", PolicyDocument={"Statement": statement}, Roles=[role.id]
    )
    found = world.client("iam").get_role_policy(RoleName=role.id, PolicyName="list")["PolicyDocument"]
    assert found == {"Version": "2012-10-17", "Statement": statement}


def test_a_managed_policy_is_found_whatever_the_case_of_its_name(world: World) -> None:
    arn = "arn:aws:iam::aws:policy/service-role/AmazonEC2RoleForSSM"
    role = world.make("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST, ManagedPolicyArns=[arn])
    attached = world.client("iam").list_attached_role_policies(RoleName=role.id)["AttachedPolicies"]
    assert [policy["PolicyName"] for policy in attached] == ["AmazonEC2RoleforSSM"]
    assert role.read() == role.properties


def test_an_open_zfs_file_system_has_a_root_volume(world: World) -> None:
    made = world.make(
        "AWS::FSx::FileSystem",
        FileSystemType="OPENZFS",
        SubnetIds=[world.subnet()],
        StorageCapacity=64,
        OpenZFSConfiguration={
            "DeploymentType": "SINGLE_AZ_1",
            "ThroughputCapacity": 64,
            "Options": ["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"],
        },
    )
    assert made.attribute("RootVolumeId").startswith("fsvol-")


def test_a_component_of_windows_is_kept_and_powershell_on_linux_is_not(stacks: Stacks) -> None:
    step = {"name": "Say", "action": "ExecutePowerShell", "inputs": {"commands": ["Write-Host hello"]}}
    document = {"schemaVersion": 1.0, "phases": [{"name": "build", "steps": [step]}]}
    given = {"Name": "say", "Version": "1.0.0", "Data": json.dumps(document)}
    made = typed("AWS::ImageBuilder::Component", **given, Platform="Windows")
    assert set(stacks.create("s", {"Component": made})) == {"Component"}
    with pytest.raises(AssertionError, match="the yard knows AppendFile"):
        stacks.create("t", {"Component": typed("AWS::ImageBuilder::Component", **given, Platform="Linux")})


# The yard refuses to delete what AWS does not delete; moto deletes much of it.
MANIFEST = '{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}'


def deletion_refusal(made: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        made.delete()
    return refused.value


def test_a_vpc_with_a_subnet_a_gateway_or_a_security_group_stays(world: World) -> None:
    vpc = world.make("AWS::EC2::VPC", CidrBlock="10.40.0.0/16")
    group = world.make("AWS::EC2::SecurityGroup", GroupDescription="x", VpcId=vpc.id)
    assert group.id in deletion_refusal(vpc).message
    group.delete()
    gateway = world.make("AWS::EC2::InternetGateway")
    attached = world.make("AWS::EC2::VPCGatewayAttachment", VpcId=vpc.id, InternetGatewayId=gateway.id)
    refused = deletion_refusal(vpc)
    assert (refused.code, gateway.id in refused.message) == ("DependencyViolation", True)
    attached.delete()
    world.make("AWS::EC2::Subnet", VpcId=vpc.id, CidrBlock="10.40.1.0/24")
    assert deletion_refusal(vpc).code == "DependencyViolation"


def test_a_subnet_and_a_group_in_use_by_a_mount_target_stay(world: World) -> None:
    target = world.make(
        "AWS::EFS::MountTarget",
        FileSystemId=world.file_system(),
        SubnetId=world.subnet(),
        SecurityGroups=[world.security_group()],
    )
    users = {"AWS::EC2::Subnet": world.subnet(), "AWS::EC2::SecurityGroup": world.security_group()}
    for made in [made for made in world.made if made.id in users.values()]:
        assert deletion_refusal(made).code == "DependencyViolation"
    target.delete()


def test_a_bucket_with_an_object_stays(world: World) -> None:
    bucket = world.make("AWS::S3::Bucket")
    s3 = world.client("s3")
    s3.put_object(Bucket=bucket.id, Key="checkpoint", Body=b"x")
    assert deletion_refusal(bucket).code == "BucketNotEmpty"
    s3.delete_object(Bucket=bucket.id, Key="checkpoint")


def test_a_repository_with_an_image_stays_unless_told_to_empty_it(world: World) -> None:
    ecr = world.client("ecr")
    repository = world.make("AWS::ECR::Repository")
    ecr.put_image(repositoryName=repository.id, imageManifest=MANIFEST, imageTag="1")
    assert deletion_refusal(repository).code == "RepositoryNotEmptyException"
    repository.update(EmptyOnDelete=True)
    repository.delete()
    assert repository.id not in [
        found["repositoryName"] for found in ecr.describe_repositories()["repositories"]
    ]


def test_a_role_with_a_policy_of_somebody_else_stays(world: World) -> None:
    role = world.make("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST)
    foreign = {"RoleName": role.id, "PolicyArn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}
    world.client("iam").attach_role_policy(**foreign)
    assert deletion_refusal(role).code == "DeleteConflict"
    world.client("iam").detach_role_policy(**foreign)


def test_a_compute_environment_stays_while_a_queue_uses_it(world: World) -> None:
    environment = world.compute_environment()
    order = [{"ComputeEnvironment": environment, "Order": 1}]
    world.make("AWS::Batch::JobQueue", Priority=1, ComputeEnvironmentOrder=order)
    made = next(made for made in world.made if made.id == environment)
    assert "existing JobQueue relationship" in deletion_refusal(made).message
