"""Launch templates, groups of nodes and how close they are: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import COMPUTE, DATA, GONE, IN, OUT, POOL, SELF, TEMPLATE, BadRow

NODE_GROUP = "AWS::AutoScaling::AutoScalingGroup"


def _interface(card: int) -> dict[str, Any]:
    return {
        "NetworkCardIndex": card,
        "DeviceIndex": 0,
        "InterfaceType": "efa-only" if card else "efa",
        "Groups": [SELF],
        **({"AssociatePublicIpAddress": False} if card == 0 else {}),
    }


def _metal(options: dict[str, int]) -> dict[str, Any]:
    return {"InstanceType": "c6i.metal", "CpuOptions": options}


def _two_threads(instance_type: str) -> dict[str, Any]:
    return {"InstanceType": instance_type, "CpuOptions": {"CoreCount": 32, "ThreadsPerCore": 2}}


GOOD: Mapping[str, Any] = {
    "Near": {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": "cluster"}},
    "Template": {
        "Type": TEMPLATE,
        "Properties": {
            "LaunchTemplateData": {
                "NetworkInterfaces": [_interface(card) for card in range(4)],
                "Placement": {"GroupName": {"Ref": "Near"}},
                "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
                "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"Encrypted": True}}],
            }
        },
    },
    "Machine": {
        "Type": NODE_GROUP,
        "Properties": {
            "MinSize": "0",
            "VPCZoneIdentifier": [{"Ref": "Subnet"}],
            "PlacementGroup": {"Ref": "Near"},
            "LaunchTemplate": {
                "LaunchTemplateId": {"Ref": "Template"},
                "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
            },
        },
    },
}

BAD: tuple[BadRow, ...] = (
    ("efa-groups", IN, ("SourceSecurityGroupId",), {"Fn::GetAtt": ["Another", "GroupId"]}),
    ("efa-groups", OUT, ("DestinationSecurityGroupId",), GONE),
    ("efa-groups", OUT, ("IpProtocol",), "tcp"),
    ("efa-groups", TEMPLATE, (*DATA, "NetworkInterfaces", 1, "Groups"), [{"Fn::ImportValue": "group"}]),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces"), [_interface(card) for card in range(5)]),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 2, "InterfaceType"), "efax"),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 3, "NetworkCardIndex"), 2),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 1, "DeviceIndex"), 2),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 0, "DeviceIndex"), 1),
    ("efa-interfaces", TEMPLATE, (*DATA, "NetworkInterfaces", 0, "InterfaceType"), "efa-only"),
    ("efa-interfaces", COMPUTE, (*POOL, "InstanceTypes"), ["c6i.16xlarge"]),
    ("efa-interfaces", COMPUTE, (*POOL, "InstanceTypes"), ["p6-b300.48xlarge"]),
    ("efa-together", COMPUTE, (*POOL, "Subnets"), [{"Ref": "Subnet"}, {"Ref": "Another"}]),
    ("efa-together", COMPUTE, (*POOL, "PlacementGroup"), GONE),
    ("efa-together", "AWS::EC2::PlacementGroup", ("Strategy",), "spread"),
    ("efa-interfaces", TEMPLATE, (*DATA, "InstanceType"), "c6i.16xlarge"),
    ("group-close", NODE_GROUP, ("PlacementGroup",), GONE),
    ("group-close", "AWS::EC2::PlacementGroup", ("Strategy",), "spread"),
    ("group-close", NODE_GROUP, ("VPCZoneIdentifier",), [{"Ref": "Subnet"}, {"Ref": "Another"}]),
    ("group-cpu-options", TEMPLATE, DATA, _metal({"CoreCount": 64, "ThreadsPerCore": 1})),
    ("group-ends-no-job", NODE_GROUP, ("<UpdatePolicy>",), {"AutoScalingRollingUpdate": {"MaxBatchSize": 1}}),
    (
        "group-ends-no-job",
        NODE_GROUP,
        ("<UpdatePolicy>",),
        {"AutoScalingReplacingUpdate": {"WillReplace": True}},
    ),
    ("group-one-thread", TEMPLATE, (*DATA, "InstanceType"), "c6i.32xlarge"),
    ("group-one-thread", TEMPLATE, DATA, _two_threads("c6i.16xlarge")),
    ("group-template-version", NODE_GROUP, ("LaunchTemplate", "Version"), GONE),
    ("group-template-version", NODE_GROUP, ("LaunchTemplate", "Version"), "$Latest"),
    ("node-disks-encrypted", TEMPLATE, (*DATA, "BlockDeviceMappings", 0, "Ebs", "Encrypted"), False),
    ("node-disks-encrypted", TEMPLATE, (*DATA, "BlockDeviceMappings"), GONE),
    ("node-metadata-tokens", TEMPLATE, (*DATA, "MetadataOptions", "HttpTokens"), "optional"),
    ("node-metadata-tokens", TEMPLATE, (*DATA, "MetadataOptions", "HttpPutResponseHopLimit"), 2),
    ("node-no-key-pair", TEMPLATE, (*DATA, "KeyName"), "mine"),
    ("node-no-public-address", TEMPLATE, (*DATA, "NetworkInterfaces", 0, "AssociatePublicIpAddress"), True),
    ("node-no-public-address", "AWS::EC2::Subnet", ("MapPublicIpOnLaunch",), True),
)
