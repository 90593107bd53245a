"""EC2's further address blocks of a VPC, its DHCP options, network ACLs and peering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting, shaped
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, prop, response
from slipway.yard.cloudformation.resources.tags import ec2_tags, tag_specifications

DHCP_WORDS = {
    "DomainName": "domain-name",
    "DomainNameServers": "domain-name-servers",
    "NetbiosNameServers": "netbios-name-servers",
    "NetbiosNodeType": "netbios-node-type",
    "NtpServers": "ntp-servers",
}
IPV6_ASSOCIATION = "Ipv6CidrBlockAssociation.AssociationId"


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


def dhcp_configurations(scope: ResourceScope) -> list[dict[str, Any]]:
    given = {DHCP_WORDS[name]: value for name, value in scope.properties.items() if name in DHCP_WORDS}
    return [
        {"Key": key, "Values": [str(item) for item in (value if isinstance(value, list) else [value])]}
        for key, value in given.items()
    ]


def entry(operation: str) -> Any:
    """Build the call that writes an entry; EC2 calls its ICMP code and type by a longer name."""
    return shaped(operation, renames={"Icmp": "IcmpTypeCode"}, Egress=prop("Egress", False))


def find_entry(scope: ResourceScope) -> Any:
    found = find("describe_network_acls", "NetworkAcls.0", NetworkAclIds=[prop("NetworkAclId")])(scope) or {}
    wanted = (scope.properties["RuleNumber"], scope.properties.get("Egress", False))
    entries = found.get("Entries", ())
    return next((one for one in entries if (one["RuleNumber"], one["Egress"]) == wanted), None)


def delete_entry(scope: ResourceScope) -> None:
    """moto stumbles over an entry that is gone already."""
    if find_entry(scope):
        scope.send(
            "delete_network_acl_entry",
            NetworkAclId=scope.properties["NetworkAclId"],
            RuleNumber=scope.properties["RuleNumber"],
            Egress=scope.properties.get("Egress", False),
        )


def find_acl_association(scope: ResourceScope) -> Any:
    filters = [{"Name": "association.subnet-id", "Values": [scope.properties["SubnetId"]]}]
    acls = scope.send("describe_network_acls", Filters=filters)["NetworkAcls"]
    held = [one for acl in acls for one in acl["Associations"]]
    return next((one for one in held if one["SubnetId"] == scope.properties["SubnetId"]), None)


def move_to_acl(scope: ResourceScope) -> dict[str, Any]:
    return _replaced(scope, scope.properties["NetworkAclId"])


def move_to_default_acl(scope: ResourceScope) -> None:
    """A subnet is never without an ACL: it goes back to the one of its VPC."""
    found = find("describe_network_acls", "NetworkAcls.0", NetworkAclIds=[prop("NetworkAclId")])(scope)
    if found and find_acl_association(scope):
        filters = [
            {"Name": "vpc-id", "Values": [found["VpcId"]]},
            {"Name": "default", "Values": ["true"]},
        ]
        _replaced(
            scope, scope.send("describe_network_acls", Filters=filters)["NetworkAcls"][0]["NetworkAclId"]
        )


def _replaced(scope: ResourceScope, acl: str) -> dict[str, Any]:
    current = find_acl_association(scope)["NetworkAclAssociationId"]
    return scope.send("replace_network_acl_association", AssociationId=current, NetworkAclId=acl)


def detach_options(scope: ResourceScope) -> None:
    if find("describe_vpcs", "Vpcs.0", VpcIds=[prop("VpcId")])(scope):
        scope.send("associate_dhcp_options", DhcpOptionsId="default", VpcId=scope.properties["VpcId"])


CIDR_BLOCK = ApiResource(
    service="ec2",
    create_call=shaped("associate_vpc_cidr_block"),
    identity=block_association,
    describe=find_block,
    attributes={"Id": ID},
    delete_call=call("disassociate_vpc_cidr_block", AssociationId=ID),
)

DHCP_OPTIONS = ApiResource(
    service="ec2",
    create_call=call(
        "create_dhcp_options",
        DhcpConfigurations=dhcp_configurations,
        TagSpecifications=tag_specifications("dhcp-options"),
    ),
    identity=response("DhcpOptions.DhcpOptionsId"),
    describe=find("describe_dhcp_options", "DhcpOptions.0", DhcpOptionsIds=[ID]),
    attributes={"DhcpOptionsId": ID},
    settings=(ec2_tags(),),
    delete_call=call("delete_dhcp_options", DhcpOptionsId=ID),
    accepts=frozenset({*DHCP_WORDS, "Tags"}),
)

DHCP_ASSOCIATION = ApiResource(
    service="ec2",
    create_call=shaped("associate_dhcp_options"),
    identity=lambda scope: f"{scope.properties['DhcpOptionsId']}|{scope.properties['VpcId']}",
    delete_call=detach_options,
)

NETWORK_ACL = ApiResource(
    service="ec2",
    create_call=shaped("create_network_acl", TagSpecifications=tag_specifications("network-acl")),
    identity=response("NetworkAcl.NetworkAclId"),
    describe=find("describe_network_acls", "NetworkAcls.0", NetworkAclIds=[ID]),
    attributes={"Id": ID},
    settings=(ec2_tags(),),
    delete_call=call("delete_network_acl", NetworkAclId=ID),
    accepts=frozenset({"Tags"}),
)

ACL_ENTRY = ApiResource(
    service="ec2",
    create_call=entry("create_network_acl_entry"),
    identity=lambda scope: f"acle-{scope.context.default_name[-12:].lower()}",
    describe=find_entry,
    attributes={"Id": ID},
    settings=(
        setting(
            *("CidrBlock", "Icmp", "Ipv6CidrBlock", "PortRange", "Protocol", "RuleAction"),
            put=entry("replace_network_acl_entry"),
            on_create=False,
        ),
    ),
    delete_call=delete_entry,
    accepts=frozenset({"Egress"}),
)

ACL_ASSOCIATION = ApiResource(
    service="ec2",
    create_call=move_to_acl,
    identity=response("NewAssociationId"),
    attributes={"AssociationId": ID},
    delete_call=move_to_default_acl,
    accepts=frozenset({"NetworkAclId", "SubnetId"}),
)

PEERING = ApiResource(
    service="ec2",
    create_call=shaped(
        "create_vpc_peering_connection", TagSpecifications=tag_specifications("vpc-peering-connection")
    ),
    identity=response("VpcPeeringConnection.VpcPeeringConnectionId"),
    describe=find(
        "describe_vpc_peering_connections", "VpcPeeringConnections.0", VpcPeeringConnectionIds=[ID]
    ),
    attributes={"Id": ID},
    settings=(
        # CloudFormation accepts a connection between two VPCs of one account itself.
        setting("VpcId", put=call("accept_vpc_peering_connection", VpcPeeringConnectionId=ID)),
        ec2_tags(),
    ),
    delete_call=call("delete_vpc_peering_connection", VpcPeeringConnectionId=ID),
    accepts=frozenset({"Tags", "PeerRoleArn"}),
)

EGRESS_ONLY_GATEWAY = ApiResource(
    service="ec2",
    create_call=shaped(
        "create_egress_only_internet_gateway",
        TagSpecifications=tag_specifications("egress-only-internet-gateway"),
    ),
    identity=response("EgressOnlyInternetGateway.EgressOnlyInternetGatewayId"),
    describe=find(
        "describe_egress_only_internet_gateways",
        "EgressOnlyInternetGateways.0",
        EgressOnlyInternetGatewayIds=[ID],
    ),
    attributes={"Id": ID},
    settings=(ec2_tags(),),
    delete_call=call("delete_egress_only_internet_gateway", EgressOnlyInternetGatewayId=ID),
    accepts=frozenset({"Tags"}),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::EC2::VPCCidrBlock": CIDR_BLOCK,
    "AWS::EC2::DHCPOptions": DHCP_OPTIONS,
    "AWS::EC2::VPCDHCPOptionsAssociation": DHCP_ASSOCIATION,
    "AWS::EC2::NetworkAcl": NETWORK_ACL,
    "AWS::EC2::NetworkAclEntry": ACL_ENTRY,
    "AWS::EC2::SubnetNetworkAclAssociation": ACL_ASSOCIATION,
    "AWS::EC2::VPCPeeringConnection": PEERING,
    "AWS::EC2::EgressOnlyInternetGateway": EGRESS_ONLY_GATEWAY,
}
