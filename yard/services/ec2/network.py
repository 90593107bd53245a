"""Resource types of EC2's networks: VPCs and their further address blocks, subnets, endpoints, flow logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Setting,
    call,
    changeable,
    ec2_tags,
    find,
    mirrored,
    setting,
    shaped,
    tag_specifications,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, response
from slipway.yard.errors import ApiError


def attributes(operation: str, identifier: str, names: str) -> Setting:
    """Return a Setting for a VPC's or subnet's attributes, one call each; absent ones get EC2's default."""

    def put(scope: ResourceScope) -> None:
        for name in names.split():
            value = scope.properties.get(name, name == "EnableDnsSupport")
            if name in scope.properties or name in scope.before:
                scope.send(operation, **{identifier: scope.id, name: {"Value": value}})

    return setting(names, put=put)


def modify_endpoint(scope: ResourceScope) -> None:
    """Send what to add to and remove from the endpoint's lists; without a policy, it allows full access."""
    parameters: dict[str, Any] = {"VpcEndpointId": scope.id}
    for add, remove, name in (
        ("AddRouteTableIds", "RemoveRouteTableIds", "RouteTableIds"),
        ("AddSubnetIds", "RemoveSubnetIds", "SubnetIds"),
        ("AddSecurityGroupIds", "RemoveSecurityGroupIds", "SecurityGroupIds"),
    ):
        parameters[add], parameters[remove] = scope.added(name) or None, scope.removed(name) or None
    if scope.before.get("PolicyDocument") != scope.properties.get("PolicyDocument"):
        parameters["PolicyDocument"] = scope.properties.get("PolicyDocument")
        parameters["ResetPolicy"] = "PolicyDocument" not in scope.properties or None
    parameters["PrivateDnsEnabled"] = scope.properties.get("PrivateDnsEnabled")
    scope.send("modify_vpc_endpoint", **parameters)


def block_association(scope: ResourceScope) -> Any:
    ipv4, ipv6 = response("CidrBlockAssociation.AssociationId"), response(IPV6_ASSOCIATION)
    return ipv4(scope) or ipv6(scope)


def find_block(scope: ResourceScope) -> Any:
    found = find("describe_vpcs", "Vpcs.0", VpcIds=[prop("VpcId")])(scope) or {}
    blocks = [
        *found.get("CidrBlockAssociationSet", ()),
        *found.get("Ipv6CidrBlockAssociationSet", ()),
    ]
    held = [block for block in blocks if block["AssociationId"] == scope.id]
    states = (block.get("CidrBlockState") or block.get("Ipv6CidrBlockState") or {} for block in held)
    return held[0] if any(state.get("State") != "disassociated" for state in states) else None


def _in_vpc(scope: ResourceScope, operation: str, listed: str, identifier: str) -> str | None:
    """Return the id of a default resource that EC2 makes with every VPC."""
    found = scope.send(operation, Filters=[{"Name": "vpc-id", "Values": [scope.id]}])[listed]
    defaults = (item for item in found if item.get("IsDefault", item.get("GroupName") == "default"))
    return next((str(item[identifier]) for item in defaults), None)


def _acl_association(scope: ResourceScope) -> str | None:
    filters = [{"Name": "association.subnet-id", "Values": [scope.id]}]
    acls = scope.send("describe_network_acls", Filters=filters)["NetworkAcls"]
    associations = [item for acl in acls for item in acl["Associations"] if item["SubnetId"] == scope.id]
    return associations[0]["NetworkAclAssociationId"] if associations else None


IPV6_ASSOCIATION = "Ipv6CidrBlockAssociation.AssociationId"


def flow_log_id(scope: ResourceScope) -> str:
    """Return the flow log's id; EC2 answers with success even if it made none for a resource."""
    for refused in scope.response.get("Unsuccessful") or ():
        raise ApiError(refused["Error"]["Code"], refused["Error"]["Message"])
    return str(scope.response["FlowLogIds"][0])


PROVIDERS: Mapping[str, Provider] = {
    "AWS::EC2::VPC": ApiResource(
        service="ec2",
        create_call=shaped("create_vpc", TagSpecifications=tag_specifications("vpc")),
        identity=response("Vpc.VpcId"),
        describe=find("describe_vpcs", "Vpcs.0", VpcIds=[ID]),
        attributes={
            "VpcId": ID,
            "CidrBlock": live("CidrBlock"),
            "CidrBlockAssociations": lambda scope: [
                item["AssociationId"] for item in scope.live["CidrBlockAssociationSet"]
            ],
            "Ipv6CidrBlocks": lambda scope: [
                item["Ipv6CidrBlock"] for item in scope.live.get("Ipv6CidrBlockAssociationSet", [])
            ],
            "DefaultSecurityGroup": lambda scope: _in_vpc(
                scope, "describe_security_groups", "SecurityGroups", "GroupId"
            ),
            "DefaultNetworkAcl": lambda scope: _in_vpc(
                scope, "describe_network_acls", "NetworkAcls", "NetworkAclId"
            ),
        },
        settings=(
            attributes("modify_vpc_attribute", "VpcId", "EnableDnsSupport EnableDnsHostnames"),
            ec2_tags(),
        ),
        delete_call=call("delete_vpc", VpcId=ID),
        reads=mirrored("CidrBlock Tags"),
    ),
    "AWS::EC2::VPCCidrBlock": ApiResource(
        service="ec2",
        create_call=shaped("associate_vpc_cidr_block"),
        identity=block_association,
        describe=find_block,
        attributes={"Id": ID},
        delete_call=call("disassociate_vpc_cidr_block", AssociationId=ID),
    ),
    "AWS::EC2::Subnet": ApiResource(
        service="ec2",
        create_call=shaped("create_subnet", TagSpecifications=tag_specifications("subnet")),
        identity=response("Subnet.SubnetId"),
        describe=find("describe_subnets", "Subnets.0", SubnetIds=[ID]),
        attributes={
            "SubnetId": ID,
            "VpcId": live("VpcId"),
            "CidrBlock": live("CidrBlock"),
            "AvailabilityZone": live("AvailabilityZone"),
            "AvailabilityZoneId": live("AvailabilityZoneId"),
            "Ipv6CidrBlocks": lambda scope: [
                item["Ipv6CidrBlock"] for item in scope.live.get("Ipv6CidrBlockAssociationSet", [])
            ],
            "NetworkAclAssociationId": _acl_association,
        },
        settings=(
            attributes(
                "modify_subnet_attribute", "SubnetId", "MapPublicIpOnLaunch AssignIpv6AddressOnCreation"
            ),
            ec2_tags(),
        ),
        delete_call=call("delete_subnet", SubnetId=ID),
        reads=mirrored("CidrBlock MapPublicIpOnLaunch Tags"),
    ),
    "AWS::EC2::VPCEndpoint": ApiResource(
        service="ec2",
        create_call=shaped(
            "create_vpc_endpoint",
            VpcEndpointType=prop("VpcEndpointType", "Gateway"),  # moto fails without it
            TagSpecifications=tag_specifications("vpc-endpoint"),
        ),
        identity=response("VpcEndpoint.VpcEndpointId"),
        describe=find("describe_vpc_endpoints", "VpcEndpoints.0", VpcEndpointIds=[ID]),
        attributes={
            "Id": ID,
            "CreationTimestamp": lambda scope: str(scope.live.get("CreationTimestamp", "")),
            "NetworkInterfaceIds": live("NetworkInterfaceIds", []),
            "DnsEntries": lambda scope: [
                f"{entry['HostedZoneId']}:{entry['DnsName']}" for entry in scope.live.get("DnsEntries", [])
            ],
        },
        settings=(
            changeable(
                "RouteTableIds SubnetIds SecurityGroupIds PolicyDocument PrivateDnsEnabled",
                put=modify_endpoint,
            ),
            ec2_tags(),
        ),
        delete_call=call("delete_vpc_endpoints", VpcEndpointIds=[ID]),
    ),
    "AWS::EC2::FlowLog": ApiResource(
        service="ec2",
        create_call=shaped(
            "create_flow_logs",
            ResourceIds=lambda scope: [str(scope.properties["ResourceId"])],
            TagSpecifications=tag_specifications("vpc-flow-log"),
        ),
        identity=flow_log_id,
        describe=find("describe_flow_logs", "FlowLogs.0", FlowLogIds=[ID]),
        attributes={"Id": ID},
        settings=(ec2_tags(),),
        delete_call=call("delete_flow_logs", FlowLogIds=[ID]),
        accepts="ResourceId",
    ),
}
