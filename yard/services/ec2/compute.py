"""Resource types of EC2's machines: launch templates, placement groups, instances, keys, interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
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
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, pick, prop, response
from slipway.yard.cloudformation.resources.shapes import like


def new_version(scope: ResourceScope) -> None:
    """Make a new version, as CloudFormation does; the default version stays."""
    scope.send(
        "create_launch_template_version",
        LaunchTemplateId=scope.id,
        VersionDescription=scope.properties.get("VersionDescription"),
        LaunchTemplateData=scope.properties["LaunchTemplateData"],
    )


def read_latest(scope: ResourceScope) -> object:
    versions = scope.send(
        "describe_launch_template_versions", LaunchTemplateId=scope.id, Versions=["$Latest"]
    )
    return like(
        scope.properties["LaunchTemplateData"], versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    )


def describe_instance(scope: ResourceScope) -> Any:
    """Return the instance, or None once it is terminated, although EC2 shows it for another hour."""
    found = find("describe_instances", "Reservations.0.Instances.0", InstanceIds=[ID])(scope)
    is_gone = found and found["State"]["Name"] in ("shutting-down", "terminated")
    return None if is_gone else found


ROOT_DEVICES = ("/dev/xvda", "/dev/sda1")
# A template's names of an instance's interface, where EC2's own differ.
INTERFACE_WORDS = {"GroupSet": "Groups"}


def _profile(scope: ResourceScope) -> dict[str, str] | None:
    name = scope.properties.get("IamInstanceProfile")
    return {"Name": name} if name else None


def _placement(scope: ResourceScope) -> dict[str, str] | None:
    words = {"AvailabilityZone": "AvailabilityZone", "PlacementGroupName": "GroupName", "Tenancy": "Tenancy"}
    placed = {to: scope.properties[name] for name, to in words.items() if name in scope.properties}
    return placed or None


def _interfaces(scope: ResourceScope) -> list[dict[str, object]] | None:
    listed = scope.properties.get("NetworkInterfaces")
    if not listed:
        return None
    return [{INTERFACE_WORDS.get(name, name): value for name, value in item.items()} for item in listed]


def _disks(scope: ResourceScope) -> list[dict[str, Any]] | None:
    """Return the disks; by default the root volume is deleted with its instance, which moto does not do."""
    disks = [dict(disk) for disk in scope.properties.get("BlockDeviceMappings") or ()]
    for disk in disks:
        if disk.get("Ebs") and disk["DeviceName"] in ROOT_DEVICES:
            disk["Ebs"] = {"DeleteOnTermination": True, **disk["Ebs"]}
    return [disk for disk in disks if disk.get("Ebs")] or None  # instance stores depend on the type


# Key pairs and network interfaces.
KEY_PARAMETER = "/ec2/keypair/{}"


def create_key(scope: ResourceScope) -> dict[str, Any]:
    """Make or import a key pair; CloudFormation stores the private key of one that it made in a parameter."""
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


PROVIDERS: Mapping[str, Provider] = {
    "AWS::EC2::LaunchTemplate": ApiResource(
        service="ec2",
        name=Name(property="LaunchTemplateName", limit=128),
        create_call=shaped("create_launch_template"),
        identity=response("LaunchTemplate.LaunchTemplateId"),
        describe=find("describe_launch_templates", "LaunchTemplates.0", LaunchTemplateIds=[ID]),
        attributes={
            "LaunchTemplateId": ID,
            "LaunchTemplateName": live("LaunchTemplateName"),
            "LatestVersionNumber": lambda scope: str(scope.live["LatestVersionNumber"]),
            "DefaultVersionNumber": lambda scope: str(scope.live["DefaultVersionNumber"]),
        },
        settings=(changeable("LaunchTemplateData VersionDescription", put=new_version),),
        delete_call=call("delete_launch_template", LaunchTemplateId=ID),
        reads={"LaunchTemplateData": read_latest},
    ),
    "AWS::EC2::PlacementGroup": ApiResource(
        service="ec2",
        name=Name(property="GroupName", limit=255),
        create_call=shaped("create_placement_group", TagSpecifications=tag_specifications("placement-group")),
        describe=find("describe_placement_groups", "PlacementGroups.0", GroupNames=[ID]),
        attributes={"GroupName": ID, "GroupId": live("GroupId")},
        delete_call=call("delete_placement_group", GroupName=ID),
        reads=mirrored("Strategy PartitionCount SpreadLevel"),
    ),
    "AWS::EC2::Instance": ApiResource(
        service="ec2",
        create_call=shaped(
            "run_instances",
            MinCount=1,
            MaxCount=1,
            IamInstanceProfile=_profile,
            Placement=_placement,
            TagSpecifications=tag_specifications("instance"),
            NetworkInterfaces=_interfaces,
            BlockDeviceMappings=_disks,
            Monitoring=lambda scope: (
                {"Enabled": scope.properties["Monitoring"]} if "Monitoring" in scope.properties else None
            ),
        ),
        identity=response("Instances.0.InstanceId"),
        describe=describe_instance,
        attributes={
            "InstanceId": ID,
            "AvailabilityZone": live("Placement.AvailabilityZone"),
            "PrivateIp": live("PrivateIpAddress", ""),
            "PrivateDnsName": live("PrivateDnsName", ""),
            "PublicIp": live("PublicIpAddress", ""),
            "PublicDnsName": live("PublicDnsName", ""),
            "VpcId": live("VpcId", ""),
            "State": live("State"),
        },
        settings=(
            changeable(
                "SecurityGroupIds",
                put=call("modify_instance_attribute", InstanceId=ID, Groups=prop("SecurityGroupIds")),
            ),
            changeable(
                "DisableApiTermination",
                put=call(
                    "modify_instance_attribute",
                    InstanceId=ID,
                    DisableApiTermination=lambda scope: {
                        "Value": scope.properties.get("DisableApiTermination", False)
                    },
                ),
            ),
            setting(
                "SourceDestCheck",
                put=call(
                    "modify_instance_attribute",
                    InstanceId=ID,
                    SourceDestCheck=lambda scope: {"Value": scope.properties.get("SourceDestCheck", True)},
                ),
            ),
            ec2_tags(),
        ),
        delete_call=call("terminate_instances", InstanceIds=[ID]),
        reads=mirrored("InstanceType Tags"),
        accepts="AvailabilityZone PlacementGroupName PropagateTagsToVolumeOnCreation SsmAssociations Tenancy",
    ),
    "AWS::EC2::KeyPair": ApiResource(
        service="ec2",
        create_call=create_key,
        identity=response("KeyName"),
        describe=find("describe_key_pairs", "KeyPairs.0", KeyNames=[ID]),
        attributes={"KeyPairId": live("KeyPairId"), "KeyFingerprint": live("KeyFingerprint")},
        delete_call=delete_key,
        accepts="KeyName KeyType KeyFormat PublicKeyMaterial Tags",
    ),
    "AWS::EC2::NetworkInterface": ApiResource(
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
            changeable(
                "GroupSet",
                put=call(
                    "modify_network_interface_attribute", NetworkInterfaceId=ID, Groups=prop("GroupSet")
                ),
            ),
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
    ),
}
