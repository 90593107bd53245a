"""Every type is made, shows what a stack may ask of it, changes in place, and goes without a trace.

How boto3 sees a type is what the call that describes it says. LOOKS has the others, and those whose call does
not show what the case changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from slipway.yard.cloudformation.resources.api import ApiResource
from slipway.yard.cloudformation.resources.recorded import records
from slipway.yard.cloudformation.resources.scope import ResourceScope, is_gone
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.cases import CASES, Case
from tests.yard.cloudformation.resources.world import Made, World

Look = Callable[[ResourceScope], Any]


def look(kind: str, made: Made) -> Any:
    scope = ResourceScope(
        context=made.context, service=_service(made), id=made.id, properties=made.properties
    )
    try:
        return LOOKS[kind](scope) if kind in LOOKS else _described(kind, made, scope)
    except ApiError as error:
        if is_gone(error):
            return None
        raise


def _service(made: Made) -> str:
    row = made.provider
    return row.service if isinstance(row, ApiResource) else "batch"


def _described(kind: str, made: Made, scope: ResourceScope) -> Any:
    row = made.provider
    if isinstance(row, ApiResource) and row.describe is not None:
        return row.describe(scope)
    return [record.properties for record in records(kind) if record.physical_id == made.id]


def routes(scope: ResourceScope) -> Any:
    (table,) = scope.send("describe_route_tables", RouteTableIds=[scope.properties["RouteTableId"]])[
        "RouteTables"
    ]
    return [route for route in table["Routes"] if route.get("DestinationCidrBlock") == "0.0.0.0/0"]


def associations(scope: ResourceScope) -> Any:
    filters = [{"Name": "association.route-table-association-id", "Values": [scope.id]}]
    return scope.send("describe_route_tables", Filters=filters)["RouteTables"]


def attachments(scope: ResourceScope) -> Any:
    filters = [{"Name": "attachment.vpc-id", "Values": [scope.properties["VpcId"]]}]
    return scope.send("describe_internet_gateways", Filters=filters)["InternetGateways"]


def dns_of_vpc(scope: ResourceScope) -> Any:
    vpc = scope.send("describe_vpc_attribute", VpcId=scope.id, Attribute="enableDnsHostnames")
    return vpc["EnableDnsHostnames"], scope.send("describe_vpcs", VpcIds=[scope.id])["Vpcs"][0]["Tags"]


def latest_version(scope: ResourceScope) -> Any:
    found = scope.send("describe_launch_template_versions", LaunchTemplateId=scope.id, Versions=["$Latest"])
    return found["LaunchTemplateVersions"]


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


def aliases(scope: ResourceScope) -> Any:
    return [alias for alias in scope.send("list_aliases")["Aliases"] if alias["AliasName"] == scope.id]


def lifecycle(scope: ResourceScope) -> Any:
    return scope.send("describe_lifecycle_configuration", FileSystemId=scope.id)["LifecyclePolicies"]


def groups_of_target(scope: ResourceScope) -> Any:
    return scope.send("describe_mount_target_security_groups", MountTargetId=scope.id)["SecurityGroups"]


def filters(scope: ResourceScope) -> Any:
    found = scope.send("describe_metric_filters", logGroupName=scope.properties["LogGroupName"])
    return [one for one in found["metricFilters"] if one["filterName"] == scope.id]


def streams(scope: ResourceScope) -> Any:
    found = scope.send("describe_log_streams", logGroupName=scope.properties["LogGroupName"])["logStreams"]
    return [stream for stream in found if stream["logStreamName"] == scope.id]


def log_policies(scope: ResourceScope) -> Any:
    found = scope.send("describe_resource_policies")["resourcePolicies"]
    return [policy for policy in found if policy["policyName"] == scope.id]


def subscription(scope: ResourceScope) -> Any:
    return scope.send("get_subscription_attributes", SubscriptionArn=scope.id)["Attributes"]


def topic_policy(scope: ResourceScope) -> Any:
    (topic,) = scope.properties["Topics"]
    policy = scope.send("get_topic_attributes", TopicArn=topic)["Attributes"]["Policy"]
    return None if "__default_policy_ID" in policy else policy


def secret_policy(scope: ResourceScope) -> Any:
    return scope.send("get_resource_policy", SecretId=scope.properties["SecretId"]).get("ResourcePolicy")


def document(scope: ResourceScope) -> Any:
    return scope.send("get_document", Name=scope.id)["Content"]


def definition(scope: ResourceScope) -> Any:
    found = scope.send("describe_job_definitions", jobDefinitions=[scope.id])["jobDefinitions"]
    return [one for one in found if one["status"] == "ACTIVE"]


def role_policy(scope: ResourceScope) -> Any:
    names = {name: scope.properties[name] for name in ("RoleName", "PolicyName")}
    return scope.send("get_role_policy", **names)["PolicyDocument"]


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


def notified(scope: ResourceScope) -> Any:
    found = scope.send("get_bucket_notification_configuration", Bucket=scope.properties["BucketName"])
    return found.get("TopicConfigurations")


LOOKS: Mapping[str, Look] = {
    "Custom::VpcRestrictDefaultSG": restricted,
    "Custom::S3AutoDeleteObjects": objects("BucketName"),
    "Custom::S3BucketNotifications": notified,
    "Custom::CDKBucketDeployment": objects("DestinationBucketName", "here/"),
    "AWS::CloudFormation::Stack": nested,
    "AWS::IAM::RolePolicy": role_policy,
    "AWS::Lambda::Permission": policy_of_function,
    "AWS::Lambda::LayerVersion": layer,
    "AWS::EC2::VPC": dns_of_vpc,
    "AWS::EC2::Route": routes,
    "AWS::EC2::SubnetRouteTableAssociation": associations,
    "AWS::EC2::InternetGateway": lambda scope: scope.send(
        "describe_internet_gateways", InternetGatewayIds=[scope.id]
    )["InternetGateways"],
    "AWS::EC2::VPCGatewayAttachment": attachments,
    "AWS::EC2::LaunchTemplate": latest_version,
    "AWS::IAM::Role": role,
    "AWS::IAM::Policy": inline_policy,
    "AWS::S3::Bucket": bucket,
    "AWS::KMS::Alias": aliases,
    "AWS::EFS::FileSystem": lifecycle,
    "AWS::EFS::MountTarget": groups_of_target,
    "AWS::Logs::LogStream": streams,
    "AWS::Logs::MetricFilter": filters,
    "AWS::Logs::ResourcePolicy": log_policies,
    "AWS::SNS::Subscription": subscription,
    "AWS::SNS::TopicPolicy": topic_policy,
    "AWS::SSM::Document": document,
    "AWS::SecretsManager::ResourcePolicy": secret_policy,
    "AWS::Batch::JobDefinition": definition,
    "AWS::PCS::Queue": tags_of_pcs,
}


# Every type is made, shows what a stack may ask of it, changes in place, and goes without a trace.
# Attributes that the schemas name and our stacks never ask for: moto has nothing to answer with.
NOT_SHOWN = {
    "AWS::EC2::Subnet": {"BlockPublicAccessStates"},
    "AWS::EC2::NatGateway": {"AutoProvisionZones", "AutoScalingIps", "RouteTableId"},
    "AWS::FSx::FileSystem": {"RootVolumeId"},  # of OpenZFS alone
    "AWS::EC2::VPCCidrBlock": {"Ipv6AddressAttribute", "IpSource"},
    "AWS::EC2::NetworkInterface": {"PublicIpDnsNameOptions"},
    "Custom::PclusterCluster": {"Id"},  # nobody says which attributes a custom resource has
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
