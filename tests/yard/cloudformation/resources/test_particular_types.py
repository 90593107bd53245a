"""Some types do more than API calls: AWS Batch's, buckets and their policies, Lustre, security groups."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from slipway.yard.errors import ApiError
from slipway.yard.services.s3.resources import lifecycle_rule
from tests.yard.cloudformation.resources.world import Made, World


def environment(world: World, **changes: Any) -> Made:
    resources = {**world.compute_resources(), **changes}
    return world.make(
        "AWS::Batch::ComputeEnvironment",
        Type="MANAGED",
        ReplaceComputeEnvironment=False,
        ComputeResources=resources,
    )


def described(world: World, made: Made) -> dict[str, Any]:
    batch = world.client("batch")
    (found,) = batch.describe_compute_environments(computeEnvironments=[made.id])["computeEnvironments"]
    return dict(found)


def test_an_unnamed_environment_without_a_role_gets_both_and_keeps_its_template_s_version(
    world: World,
) -> None:
    made, launch = environment(world), world.launch_template()
    found = described(world, made)
    assert found["computeEnvironmentName"].startswith("trial-ComputeEnvironment-")
    assert found["serviceRole"].endswith("/AWSServiceRoleForBatch")
    template = found["computeResources"]["launchTemplate"]
    assert template == {"launchTemplateId": launch.id, "version": "1"}
    launch.update(LaunchTemplateData={"InstanceType": "dl1.24xlarge"})
    version = {"LaunchTemplateId": launch.id, "Version": launch.attribute("LatestVersionNumber")}
    made.update(ComputeResources={**made.properties["ComputeResources"], "LaunchTemplate": version})
    assert described(world, made)["computeResources"]["launchTemplate"]["version"] == "2"


def test_security_groups_may_come_from_the_launch_template_alone(world: World) -> None:
    resources = {
        name: value for name, value in world.compute_resources().items() if name != "SecurityGroupIds"
    }
    made = world.make("AWS::Batch::ComputeEnvironment", Type="MANAGED", ComputeResources=resources)
    assert not described(world, made)["computeResources"].get("securityGroupIds")


def test_more_nodes_are_allowed_in_place_and_a_rollback_takes_them_back(world: World) -> None:
    made = environment(world)
    old, before = made.properties, made.id
    made.update(ComputeResources={**old["ComputeResources"], "MaxvCpus": 384})
    assert (made.id, described(world, made)["computeResources"]["maxvCpus"]) == (before, 384)
    made.become(old)
    assert described(world, made)["computeResources"]["maxvCpus"] == 96


def test_best_fit_scales_in_place_and_refuses_the_rest_so_that_it_can_be_rolled_back(world: World) -> None:
    made = environment(world, AllocationStrategy="BEST_FIT", Tags={"team": "one"})
    scaled = {**made.properties["ComputeResources"], "MaxvCpus": 384}
    made.update(ComputeResources=scaled)
    assert described(world, made)["computeResources"]["maxvCpus"] == 384
    old, retagged = made.properties, {**scaled, "Tags": {"team": "two"}}
    for change in (retagged, {**scaled, "UpdateToLatestImageVersion": True}):
        with pytest.raises(
            ApiError, match=r"tags, .* updateToLatestImageVersion, .* can be updated for CE only"
        ):
            made.update(ComputeResources=change)
        made.properties = old
    made.properties = {**old, "ComputeResources": retagged}  # as CloudFormation rolls a failed update back
    made.become(old)
    assert described(world, made)["computeResources"]["tags"] == {"team": "one"}


def test_an_environment_that_no_node_survives_fails_with_batchs_reason(world: World) -> None:
    arm = world.client("ec2").register_image(Name="arm", Architecture="arm64")["ImageId"]
    images = [{"ImageType": "ECS_AL2023", "ImageIdOverride": arm}]
    with pytest.raises(ApiError, match="went INVALID with error: CLIENT_ERROR - The architecture 'x86_64'"):
        environment(world, Ec2Configuration=images)


def test_a_queue_keeps_the_time_limits_of_job_states(world: World) -> None:
    limit = {
        "Action": "CANCEL",
        "MaxTimeSeconds": 3600,
        "Reason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "State": "RUNNABLE",
    }
    order = [{"ComputeEnvironment": world.compute_environment(), "Order": 1}]
    queue = world.make(
        "AWS::Batch::JobQueue", Priority=1, ComputeEnvironmentOrder=order, JobStateTimeLimitActions=[limit]
    )
    queue.update(JobStateTimeLimitActions=[{**limit, "MaxTimeSeconds": 7200}])
    (found,) = world.client("batch").describe_job_queues(jobQueues=[queue.id])["jobQueues"]
    assert [action["maxTimeSeconds"] for action in found["jobStateTimeLimitActions"]] == [7200]


def multinode(command: str) -> dict[str, Any]:
    container = {
        "Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/gaudi:1",
        "Command": [command],
        "InstanceType": "dl1.24xlarge",
        "ResourceRequirements": [{"Type": "MEMORY", "Value": "700000"}, {"Type": "VCPU", "Value": "96"}],
        "LinuxParameters": {"SharedMemorySize": 65536},
        "Ulimits": [{"Name": "memlock", "SoftLimit": -1, "HardLimit": -1}],
    }
    ranges = [{"TargetNodes": "0:", "Container": container}]
    return {"MainNode": 0, "NumNodes": 2, "NodeRangeProperties": ranges}


def test_a_changed_definition_is_a_new_revision_with_its_open_range_of_nodes_and_the_old_one_is_closed(
    world: World,
) -> None:
    made = world.make("AWS::Batch::JobDefinition", Type="multinode", NodeProperties=multinode("train"))
    first = made.id
    made.update(NodeProperties=multinode("evaluate"))
    name = made.id.rpartition("/")[2].rpartition(":")[0]
    found = world.client("batch").describe_job_definitions(jobDefinitionName=name)["jobDefinitions"]
    assert {one["jobDefinitionArn"]: one["status"] for one in found} == {first: "INACTIVE", made.id: "ACTIVE"}
    assert made.id.endswith(":2")
    for one in found:
        (nodes,) = one["nodeProperties"]["nodeRangeProperties"]
        assert (one["type"], nodes["targetNodes"]) == ("multinode", "0:")
        assert nodes["container"]["ulimits"] == [{"name": "memlock", "softLimit": -1, "hardLimit": -1}]


# Buckets, their policies, and Lustre.


def tls_only(bucket: str) -> dict[str, object]:
    deny = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    allow = {
        "Effect": "Allow",
        "Principal": {"Service": "logging.s3.amazonaws.com"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    return {"Version": "2012-10-17", "Statement": [deny, allow]}


def test_a_policy_for_tls_alone_stands_in_s3_whole_does_not_lock_the_bucket_and_goes_with_its_resource(
    world: World,
) -> None:
    bucket = world.bucket()
    assert bucket == bucket.lower()
    assert len(bucket) <= 63
    policy = world.make("AWS::S3::BucketPolicy", Bucket=bucket, PolicyDocument=tls_only(bucket))
    s3 = world.client("s3")
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]) == tls_only(bucket)
    s3.put_object(Bucket=bucket, Key="data", Body=b"x")
    assert s3.get_object(Bucket=bucket, Key="data")["Body"].read() == b"x"
    s3.delete_object(Bucket=bucket, Key="data")
    policy.delete()
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=bucket)


def test_access_logs_may_be_asked_for_before_the_policy_that_permits_them(world: World) -> None:
    target = world.bucket()
    logging = {"DestinationBucketName": target, "LogFilePrefix": "access/"}
    source = world.make("AWS::S3::Bucket", LoggingConfiguration=logging)
    world.make("AWS::S3::BucketPolicy", Bucket=target, PolicyDocument=tls_only(target))
    said = world.client("s3").get_bucket_logging(Bucket=source.id)["LoggingEnabled"]
    assert (said["TargetBucket"], said["TargetPrefix"]) == (target, "access/")
    source.update(LoggingConfiguration=None)
    s3 = world.client("s3")
    for log in s3.list_objects_v2(Bucket=target).get("Contents", []):
        s3.delete_object(Bucket=target, Key=log["Key"])


def test_versioning_that_is_taken_away_is_suspended(world: World) -> None:
    bucket = world.make("AWS::S3::Bucket", VersioningConfiguration={"Status": "Enabled"})
    bucket.update(VersioningConfiguration=None)
    assert world.client("s3").get_bucket_versioning(Bucket=bucket.id)["Status"] == "Suspended"


@pytest.mark.parametrize(
    ("rule", "nested"),
    [
        ({"Status": "Enabled", "ExpirationInDays": 3}, {"Filter": {"Prefix": ""}, "Expiration": {"Days": 3}}),
        (
            {"Status": "Enabled", "Prefix": "a/", "TagFilters": [{"Key": "k", "Value": "v"}]},
            {"Filter": {"And": {"Prefix": "a/", "Tags": [{"Key": "k", "Value": "v"}]}}},
        ),
        (
            {
                "Status": "Enabled",
                "NoncurrentVersionTransitions": [{"StorageClass": "GLACIER", "TransitionInDays": 9}],
            },
            {
                "Filter": {"Prefix": ""},
                "NoncurrentVersionTransitions": [{"StorageClass": "GLACIER", "NoncurrentDays": 9}],
            },
        ),
    ],
)
def test_a_lifecycle_rule_is_nested_as_s3_wants_it(
    rule: dict[str, object], nested: dict[str, object]
) -> None:
    assert lifecycle_rule(rule) == {"Status": "Enabled", **nested}


def test_lustre_shows_where_to_mount_it_and_its_data_repository_has_an_id_as_fsx_gives_it(
    world: World,
) -> None:
    made = world.make(
        "AWS::FSx::FileSystem",
        FileSystemType="LUSTRE",
        SubnetIds=[world.subnet()],
        StorageCapacity=1200,
        LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
    )
    assert made.attribute("DNSName") == f"{made.id}.fsx.us-east-1.amazonaws.com"
    assert made.attribute("LustreMountName")
    paths = {"FileSystemPath": "/data", "DataRepositoryPath": "s3://bucket"}
    data = world.make("AWS::FSx::DataRepositoryAssociation", FileSystemId="fs-0123456789abcdef0", **paths)
    assert re.fullmatch(r"dra-\w{17}", data.id)
    assert data.attribute("ResourceARN").endswith(f":association/fs-0123456789abcdef0/{data.id}")


# Rules change in place and one by one, and drift says to which resource they belong.
SSH = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "10.0.0.0/8", "Description": "ssh"}
NFS = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "CidrIp": "10.20.0.0/16"}
LUSTRE = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "CidrIp": "10.20.0.0/16"}


def group(world: World, **properties: Any) -> Made:
    return world.make("AWS::EC2::SecurityGroup", GroupDescription="nodes", VpcId=world.vpc(), **properties)


def rules(world: World, made: Made) -> dict[str, dict[str, Any]]:
    filters = [{"Name": "group-id", "Values": [made.id]}]
    found = world.client("ec2").describe_security_group_rules(Filters=filters)["SecurityGroupRules"]
    return {rule["SecurityGroupRuleId"]: rule for rule in found}


def ports(world: World, made: Made) -> list[int]:
    return sorted(rule["FromPort"] for rule in rules(world, made).values() if not rule["IsEgress"])


def test_a_changed_rule_leaves_the_group_and_its_other_rules_in_place_and_a_rollback_brings_it_back(
    world: World,
) -> None:
    made = group(world, SecurityGroupIngress=[SSH, NFS])
    kept = {key for key, rule in rules(world, made).items() if rule.get("FromPort") == 2049}
    before, old = made.id, made.properties
    never = {**old, "SecurityGroupIngress": [LUSTRE]}
    made.provider.update(made.context, made.resource, never, old)
    assert ports(world, made) == [22, 2049], "undoing what never happened is no error"
    made.update(SecurityGroupIngress=[NFS, LUSTRE])
    assert made.id == before
    assert ports(world, made) == [988, 2049]
    assert kept < set(rules(world, made))
    made.become(old)
    assert ports(world, made) == [22, 2049]


def test_a_group_lets_everything_out_only_without_an_egress_of_its_own(world: World) -> None:
    made = group(world, SecurityGroupEgress=[NFS])
    outward = [rule["CidrIpv4"] for rule in rules(world, made).values() if rule["IsEgress"]]
    assert outward == ["10.20.0.0/16"]
    made.update(SecurityGroupEgress=None)
    (rule,) = [rule for rule in rules(world, made).values() if rule["IsEgress"]]
    assert (rule["IpProtocol"], rule["CidrIpv4"]) == ("-1", "0.0.0.0/0")


def test_a_rule_of_its_own_survives_a_change_of_the_group_and_is_no_drift_as_one_by_hand_is(
    world: World,
) -> None:
    made = group(world, SecurityGroupIngress=[SSH])
    own = world.make(
        "AWS::EC2::SecurityGroupIngress", GroupId=made.id, IpProtocol="-1", SourceSecurityGroupId=made.id
    )
    made.update(SecurityGroupIngress=[NFS])
    assert own.id in rules(world, made)
    live = made.read()
    assert live is not None
    assert live["SecurityGroupIngress"] == [NFS]
    world.client("ec2").authorize_security_group_ingress(
        GroupId=made.id, IpProtocol="tcp", FromPort=3389, ToPort=3389, CidrIp="0.0.0.0/0"
    )
    live = made.read()
    assert live is not None
    assert [rule["FromPort"] for rule in live["SecurityGroupIngress"]] == [2049, 3389]


def test_nodes_may_reach_each_other_over_efa_both_ways(world: World) -> None:
    made = group(world)
    both = {"GroupId": made.id, "IpProtocol": "-1"}
    world.make("AWS::EC2::SecurityGroupIngress", **both, SourceSecurityGroupId=made.id)
    world.make("AWS::EC2::SecurityGroupEgress", **both, DestinationSecurityGroupId=made.id)
    among = [rule for rule in rules(world, made).values() if "ReferencedGroupInfo" in rule]
    assert sorted(rule["IsEgress"] for rule in among) == [False, True]
    assert {rule["ReferencedGroupInfo"]["GroupId"] for rule in among} == {made.id}


def test_a_described_rule_for_the_addresses_of_s3_is_no_drift(world: World) -> None:
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "Description": "HTTPS to S3"}
    to_s3 = {**https, "DestinationPrefixListId": "pl-63a5400a"}
    live = group(world, SecurityGroupEgress=[to_s3]).read()
    assert live is not None
    assert live["SecurityGroupEgress"] == [to_s3]
