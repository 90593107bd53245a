"""Resource types of EC2's routing: route tables, gateways, elastic IP addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiCall,
    ApiResource,
    call,
    changeable,
    ec2_tags,
    find,
    setting,
    shaped,
    tag_specifications,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.recorded import is_only_recorded
from slipway.yard.cloudformation.resources.scope import (
    ID,
    Expression,
    ResourceScope,
    live,
    prop,
    response,
    text,
)

# The properties of a route's target; a route has one of them.
ROUTE_TARGETS = (
    "CarrierGatewayId EgressOnlyInternetGatewayId GatewayId InstanceId LocalGatewayId NatGatewayId "
    "NetworkInterfaceId TransitGatewayId VpcEndpointId VpcPeeringConnectionId"
)

DESTINATIONS = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")


def destination(scope: ResourceScope) -> str:
    return next(str(scope.properties[name]) for name in DESTINATIONS if scope.properties.get(name))


def unless_recorded(name: str, kind: str) -> Expression:
    """Return an expression that leaves out a recorded target, which EC2 does not know."""

    def target(scope: ResourceScope) -> Any:
        given = scope.properties.get(name)
        return None if given is None or is_only_recorded(kind, given) else given

    return target


def delete_route(scope: ResourceScope) -> None:
    destinations = {name: scope.properties.get(name) for name in DESTINATIONS}
    scope.send("delete_route", RouteTableId=scope.properties["RouteTableId"], **destinations)


def move_gateway(scope: ResourceScope) -> None:
    """Attach another gateway to the same VPC."""
    vpc = scope.properties["VpcId"]
    scope.send("detach_internet_gateway", InternetGatewayId=scope.before["InternetGatewayId"], VpcId=vpc)
    scope.send("attach_internet_gateway", InternetGatewayId=scope.properties["InternetGatewayId"], VpcId=vpc)


def delete_nat_gateway(scope: ResourceScope) -> None:
    """Delete the gateway and its interface, which moto would keep, so the subnet could not be deleted."""
    (gateway,) = scope.send("describe_nat_gateways", NatGatewayIds=[scope.id])["NatGateways"] or [None]
    if gateway is None or gateway["State"] == "deleted":
        return
    scope.send("delete_nat_gateway", NatGatewayId=scope.id)
    for address in gateway["NatGatewayAddresses"]:
        scope.send("delete_network_interface", NetworkInterfaceId=address["NetworkInterfaceId"])


def _allocation(scope: ResourceScope) -> Mapping[str, Any]:
    addresses = scope.send("describe_addresses", PublicIps=[scope.id])["Addresses"]
    return dict(addresses[0])


def _retag_address(scope: ResourceScope) -> None:
    ec2_tags().apply(replace(scope, id=_allocation(scope)["AllocationId"]))


def _release_address(scope: ResourceScope) -> None:
    address = _allocation(scope)
    if address.get("AssociationId"):
        scope.send("disassociate_address", AssociationId=address["AssociationId"])
    scope.send("release_address", AllocationId=address["AllocationId"])


def to_target(operation: str) -> ApiCall:
    return shaped(
        operation,
        EgressOnlyInternetGatewayId=unless_recorded(
            "EgressOnlyInternetGatewayId", "AWS::EC2::EgressOnlyInternetGateway"
        ),
        VpcPeeringConnectionId=unless_recorded("VpcPeeringConnectionId", "AWS::EC2::VPCPeeringConnection"),
    )


PROVIDERS: Mapping[str, Provider] = {
    "AWS::EC2::RouteTable": ApiResource(
        service="ec2",
        create_call=shaped("create_route_table", TagSpecifications=tag_specifications("route-table")),
        identity=response("RouteTable.RouteTableId"),
        describe=find("describe_route_tables", "RouteTables.0", RouteTableIds=[ID]),
        attributes={"RouteTableId": ID},
        settings=(ec2_tags(),),
        delete_call=call("delete_route_table", RouteTableId=ID),
    ),
    "AWS::EC2::Route": ApiResource(
        service="ec2",
        create_call=to_target("create_route"),
        identity=lambda scope: f"{scope.properties['RouteTableId']}|{destination(scope)}",
        attributes={"CidrBlock": destination},
        settings=(changeable(ROUTE_TARGETS, put=to_target("replace_route")),),
        delete_call=delete_route,
    ),
    "AWS::EC2::SubnetRouteTableAssociation": ApiResource(
        service="ec2",
        create_call=shaped("associate_route_table"),
        identity=response("AssociationId"),
        attributes={"Id": ID},
        delete_call=call("disassociate_route_table", AssociationId=ID),
    ),
    "AWS::EC2::InternetGateway": ApiResource(
        service="ec2",
        create_call=call("create_internet_gateway", TagSpecifications=tag_specifications("internet-gateway")),
        identity=response("InternetGateway.InternetGatewayId"),
        attributes={"InternetGatewayId": ID},
        settings=(ec2_tags(),),
        delete_call=call("delete_internet_gateway", InternetGatewayId=ID),
    ),
    "AWS::EC2::VPCGatewayAttachment": ApiResource(
        service="ec2",
        create_call=shaped("attach_internet_gateway"),
        identity=text("IGW|{VpcId}"),
        attributes={"AttachmentType": lambda _scope: "IGW"},
        settings=(changeable("InternetGatewayId", put=move_gateway),),
        delete_call=shaped("detach_internet_gateway"),
    ),
    "AWS::EC2::EIP": ApiResource(
        service="ec2",
        create_call=shaped("allocate_address", TagSpecifications=tag_specifications("elastic-ip")),
        identity=response("PublicIp"),
        describe=find("describe_addresses", "Addresses.0", PublicIps=[ID]),
        attributes={"PublicIp": ID, "AllocationId": live("AllocationId")},
        settings=(
            setting("InstanceId", put=call("associate_address", PublicIp=ID, InstanceId=prop("InstanceId"))),
            changeable("Tags", put=_retag_address),
        ),
        delete_call=_release_address,
    ),
    "AWS::EC2::NatGateway": ApiResource(
        service="ec2",
        create_call=shaped("create_nat_gateway", TagSpecifications=tag_specifications("natgateway")),
        identity=response("NatGateway.NatGatewayId"),
        describe=find("describe_nat_gateways", "NatGateways.0", NatGatewayIds=[ID]),
        attributes={"NatGatewayId": ID, "EniId": live("NatGatewayAddresses.0.NetworkInterfaceId")},
        settings=(ec2_tags(),),
        delete_call=delete_nat_gateway,
    ),
}
