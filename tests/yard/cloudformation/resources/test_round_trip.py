"""Every type is made, shows what a stack may ask of it, changes in place, and goes without a trace.

A type is read through boto3's call that describes it. LOOKS has the types without such a call, and those
whose call does not show what the case changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from slipway.yard.cloudformation.resources.api import ApiResource, find
from slipway.yard.cloudformation.resources.recorded import records
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, is_gone, prop
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.cases import CASES, Case
from tests.yard.cloudformation.resources.world import Made, World

Look = Callable[[ResourceScope], Any]


def look(kind: str, made: Made) -> Any:
    row = made.provider
    service = row.service if isinstance(row, ApiResource) else "batch"
    scope = ResourceScope(context=made.context, service=service, id=made.id, properties=made.properties)
    try:
        if kind in LOOKS:
            return LOOKS[kind](scope)
        if isinstance(row, ApiResource) and row.describe is not None:
            return row.describe(scope)
    except ApiError as error:
        if is_gone(error):
            return None
        raise
    return [record.properties for record in records(kind) if record.physical_id == made.id]


def routes(scope: ResourceScope) -> Any:
    (table,) = scope.send("describe_route_tables", RouteTableIds=[scope.properties["RouteTableId"]])[
        "RouteTables"
    ]
    return [route for route in table["Routes"] if route.get("DestinationCidrBlock") == "0.0.0.0/0"]


def dns_of_vpc(scope: ResourceScope) -> Any:
    vpc = scope.send("describe_vpc_attribute", VpcId=scope.id, Attribute="enableDnsHostnames")
    return vpc["EnableDnsHostnames"], scope.send("describe_vpcs", VpcIds=[scope.id])["Vpcs"][0]["Tags"]


def tags_of_pcs(scope: ResourceScope) -> Any:
    queue = scope.id.rpartition("/")[2]
    exists = scope.send("get_queue", clusterIdentifier=scope.properties["ClusterId"], queueIdentifier=queue)
    return bool(exists) and scope.send("list_tags_for_resource", resourceArn=scope.id)["tags"]


def inline_policy(scope: ResourceScope) -> Any:
    (role,) = scope.properties["Roles"]
    return scope.send("get_role_policy", RoleName=role, PolicyName=scope.properties["PolicyName"])[
        "PolicyDocument"
    ]


def role(scope: ResourceScope) -> Any:
    found = scope.send("get_role", RoleName=scope.id)["Role"]
    policies = scope.send("list_attached_role_policies", RoleName=scope.id)["AttachedPolicies"]
    return found.get("Description"), policies


def bucket(scope: ResourceScope) -> Any:
    versioning = scope.send("get_bucket_versioning", Bucket=scope.id).get("Status")
    return versioning, scope.send("get_bucket_tagging", Bucket=scope.id)["TagSet"]


def topic_policy(scope: ResourceScope) -> Any:
    (topic,) = scope.properties["Topics"]
    policy = scope.send("get_topic_attributes", TopicArn=topic)["Attributes"]["Policy"]
    return None if "__default_policy_ID" in policy else policy


def definition(scope: ResourceScope) -> Any:
    found = scope.send("describe_job_definitions", jobDefinitions=[scope.id])["jobDefinitions"]
    return [one for one in found if one["status"] == "ACTIVE"]


def policy_of_function(scope: ResourceScope) -> Any:
    policy = scope.send("get_policy", FunctionName=scope.properties["FunctionName"])["Policy"]
    return json.loads(policy)["Statement"]


def layer(scope: ResourceScope) -> Any:
    return [one for one in scope.send("list_layers")["Layers"] if scope.id.startswith(one["LayerArn"])]


def nested(scope: ResourceScope) -> Any:
    found = scope.send_to("cloudformation", "describe_stacks", StackName=scope.id)["Stacks"]
    return [stack["Tags"] or True for stack in found if stack["StackStatus"] != "DELETE_COMPLETE"]


def restricted(scope: ResourceScope) -> Any:
    (group,) = scope.send("describe_security_groups", GroupIds=[scope.id])["SecurityGroups"]
    return not (group["IpPermissions"] or group["IpPermissionsEgress"])


def objects(bucket: str, prefix: str = "") -> Look:
    def look(scope: ResourceScope) -> Any:
        name = scope.properties[bucket]
        found = scope.send("list_objects_v2", Bucket=name, Prefix=prefix).get("Contents", [])
        return [scope.send("get_object", Bucket=name, Key=one["Key"])["Body"].read() for one in found]

    return look


OF_GROUP = prop("LogGroupName")
LOOKS: Mapping[str, Look] = {
    "Custom::VpcRestrictDefaultSG": restricted,
    "Custom::S3AutoDeleteObjects": objects("BucketName"),
    "Custom::S3BucketNotifications": find(
        "get_bucket_notification_configuration", "TopicConfigurations", Bucket=prop("BucketName")
    ),
    "Custom::CDKBucketDeployment": objects("DestinationBucketName", "here/"),
    "AWS::CloudFormation::Stack": nested,
    "AWS::IAM::RolePolicy": find(
        "get_role_policy", "PolicyDocument", RoleName=prop("RoleName"), PolicyName=prop("PolicyName")
    ),
    "AWS::Lambda::Permission": policy_of_function,
    "AWS::Lambda::LayerVersion": layer,
    "AWS::EC2::VPC": dns_of_vpc,
    "AWS::EC2::Route": routes,
    "AWS::EC2::SubnetRouteTableAssociation": find(
        "describe_route_tables",
        "RouteTables",
        Filters=[{"Name": "association.route-table-association-id", "Values": [ID]}],
    ),
    "AWS::EC2::InternetGateway": find(
        "describe_internet_gateways", "InternetGateways", InternetGatewayIds=[ID]
    ),
    "AWS::EC2::VPCGatewayAttachment": find(
        "describe_internet_gateways",
        "InternetGateways",
        Filters=[{"Name": "attachment.vpc-id", "Values": [prop("VpcId")]}],
    ),
    "AWS::EC2::LaunchTemplate": find(
        "describe_launch_template_versions",
        "LaunchTemplateVersions",
        LaunchTemplateId=ID,
        Versions=["$Latest"],
    ),
    "AWS::IAM::Role": role,
    "AWS::IAM::Policy": inline_policy,
    "AWS::S3::Bucket": bucket,
    "AWS::KMS::Alias": find("list_aliases", "Aliases", where="AliasName"),
    "AWS::EFS::FileSystem": find("describe_lifecycle_configuration", "LifecyclePolicies", FileSystemId=ID),
    "AWS::EFS::MountTarget": find(
        "describe_mount_target_security_groups", "SecurityGroups", MountTargetId=ID
    ),
    "AWS::Logs::LogStream": find(
        "describe_log_streams", "logStreams", where="logStreamName", logGroupName=OF_GROUP
    ),
    "AWS::Logs::MetricFilter": find(
        "describe_metric_filters", "metricFilters", where="filterName", logGroupName=OF_GROUP
    ),
    "AWS::Logs::ResourcePolicy": find("describe_resource_policies", "resourcePolicies", where="policyName"),
    "AWS::SNS::Subscription": find("get_subscription_attributes", "Attributes", SubscriptionArn=ID),
    "AWS::SNS::TopicPolicy": topic_policy,
    "AWS::SSM::Document": find("get_document", "Content", Name=ID),
    "AWS::SecretsManager::ResourcePolicy": find(
        "get_resource_policy", "ResourcePolicy", SecretId=prop("SecretId")
    ),
    "AWS::Batch::JobDefinition": definition,
    "AWS::PCS::Queue": tags_of_pcs,
}


# Every type is made, shows what a stack may ask of it, changes in place, and goes without a trace.
# Attributes in the schemas that our stacks never read, and for which moto has no value.
NOT_SHOWN = {
    "AWS::EC2::Subnet": {"BlockPublicAccessStates"},
    "AWS::EC2::NatGateway": {"AutoProvisionZones", "AutoScalingIps", "RouteTableId"},
    "AWS::FSx::FileSystem": {"RootVolumeId"},  # of OpenZFS alone
    "AWS::EC2::VPCCidrBlock": {"Ipv6AddressAttribute", "IpSource"},
    "AWS::EC2::NetworkInterface": {"PublicIpDnsNameOptions"},
    "Custom::PclusterCluster": {"Id"},  # a custom resource declares no attributes
    "AWS::ImageBuilder::Component": {"LatestVersion"},  # its parts are shown, by dotted names
    "AWS::ImageBuilder::ImageRecipe": {"LatestVersion"},
    "AWS::ImageBuilder::ImagePipeline": {"DeploymentId"},
}

# As on AWS: terminated machines, keys in their waiting time and closed revisions can still be described.
LINGERING = {"AWS::EC2::Instance", "AWS::KMS::Key", "AWS::EC2::NatGateway", "AWS::EC2::VPCEndpoint"}


def read_only(kind: str) -> set[str]:
    from slipway.yard.cloudformation.template.schemas import read_only

    return {path for path in read_only(kind) if "/" not in path} - NOT_SHOWN.get(kind, set())


def difference(made: Made) -> dict[str, Any]:
    """Return what drift detection would show; nothing for a type that it does not check."""
    with suppress(NotImplementedError):
        live = made.read()
        assert live is not None, "it is there and drift calls it gone"
        return {
            name: (value, live.get(name))
            for name, value in made.properties.items()
            if live.get(name) != value
        }
    return {}


@pytest.mark.parametrize("kind", CASES)
def test_a_resource_is_made_changed_read_and_deleted(kind: str, world: World) -> None:
    case: Case = CASES[kind](world)
    made = world.make(kind, **case.properties)
    assert made.id
    assert {name for name, value in made.resource.attributes.items() if value is not None} >= read_only(kind)
    assert difference(made) == {}
    seen = look(kind, made)
    assert seen
    if case.change:
        before = made.id
        made.update(**case.change)
        assert made.id == before or kind == "AWS::Batch::JobDefinition"
        assert difference(made) == {}
        assert look(kind, made) != seen
    made.delete()
    assert not look(kind, made) or kind in LINGERING
    made.delete()
    world.made.remove(made)
