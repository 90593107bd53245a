"""EC2's things that instances are launched with: key pairs and network interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting, shaped
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, pick, response
from slipway.yard.cloudformation.resources.tags import ec2_tags, tag_specifications

KEY_PARAMETER = "/ec2/keypair/{}"


def create_key(scope: ResourceScope) -> dict[str, Any]:
    """Make or import a key; CloudFormation keeps the private half of one that it made in a parameter."""
    given, tags = scope.properties, tag_specifications("key-pair")(scope)
    if "PublicKeyMaterial" in given:
        material = given["PublicKeyMaterial"].encode()
        return scope.send(
            "import_key_pair", KeyName=given["KeyName"], PublicKeyMaterial=material, TagSpecifications=tags
        )
    made = scope.send(
        "create_key_pair", KeyName=given["KeyName"], KeyType=given.get("KeyType"), TagSpecifications=tags
    )
    scope.send_to(
        "ssm",
        "put_parameter",
        Name=KEY_PARAMETER.format(made["KeyPairId"]),
        Value=made["KeyMaterial"],
        Type="SecureString",
    )
    return made


def delete_key(scope: ResourceScope) -> None:
    found = find("describe_key_pairs", "KeyPairs.0.KeyPairId", KeyNames=[ID])(scope)
    scope.send("delete_key_pair", KeyName=scope.id)
    if found and "PublicKeyMaterial" not in scope.properties:
        scope.send_to("ssm", "delete_parameter", Name=KEY_PARAMETER.format(found))


def further_addresses(scope: ResourceScope) -> list[str]:
    listed = scope.live.get("PrivateIpAddresses", ())
    return [item["PrivateIpAddress"] for item in listed if not item.get("Primary")]


def change_groups(scope: ResourceScope) -> None:
    scope.send(
        "modify_network_interface_attribute",
        NetworkInterfaceId=scope.id,
        Groups=scope.properties.get("GroupSet"),
    )


KEY_PAIR = ApiResource(
    service="ec2",
    create_call=create_key,
    identity=response("KeyName"),
    describe=find("describe_key_pairs", "KeyPairs.0", KeyNames=[ID]),
    attributes={"KeyPairId": live("KeyPairId"), "KeyFingerprint": live("KeyFingerprint")},
    delete_call=delete_key,
    accepts=frozenset({"KeyName", "KeyType", "KeyFormat", "PublicKeyMaterial", "Tags"}),
)

NETWORK_INTERFACE = ApiResource(
    service="ec2",
    create_call=shaped(
        "create_network_interface",
        renames={"GroupSet": "Groups"},
        TagSpecifications=tag_specifications("network-interface"),
    ),
    identity=response("NetworkInterface.NetworkInterfaceId"),
    describe=find("describe_network_interfaces", "NetworkInterfaces.0", NetworkInterfaceIds=[ID]),
    attributes={
        "Id": ID,
        "VpcId": live("VpcId"),
        "PrimaryPrivateIpAddress": live("PrivateIpAddress"),
        "SecondaryPrivateIpAddresses": further_addresses,
        "PrimaryIpv6Address": lambda scope: pick(scope.live, "Ipv6Addresses.0.Ipv6Address", ""),
    },
    settings=(
        setting("GroupSet", put=change_groups, on_create=False),
        setting(
            "SourceDestCheck",
            put=call(
                "modify_network_interface_attribute",
                NetworkInterfaceId=ID,
                SourceDestCheck=lambda scope: {"Value": scope.properties.get("SourceDestCheck", True)},
            ),
        ),
        ec2_tags(),
    ),
    delete_call=call("delete_network_interface", NetworkInterfaceId=ID),
    accepts=frozenset({"Tags"}),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::EC2::KeyPair": KEY_PAIR,
    "AWS::EC2::NetworkInterface": NETWORK_INTERFACE,
}
