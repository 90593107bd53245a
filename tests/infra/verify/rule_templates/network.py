"""Security groups and subnets: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import GONE, IN, OUT, SELF, BadRow

GROUP = "AWS::EC2::SecurityGroup"


GOOD: Mapping[str, Any] = {
    "Group": {
        "Type": GROUP,
        "Properties": {
            "SecurityGroupIngress": [
                {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "10.0.0.0/16"}
            ],
            "SecurityGroupEgress": [
                {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}
            ],
        },
    },
    "SelfIn": {
        "Type": IN,
        "Properties": {"IpProtocol": "-1", "GroupId": SELF, "SourceSecurityGroupId": SELF},
    },
    "SelfOut": {
        "Type": OUT,
        "Properties": {"IpProtocol": "-1", "GroupId": SELF, "DestinationSecurityGroupId": SELF},
    },
    "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"MapPublicIpOnLaunch": False}},
}

BAD: tuple[BadRow, ...] = (
    ("traffic-egress-said", GROUP, ("SecurityGroupEgress",), GONE),
    ("traffic-https-out", GROUP, ("SecurityGroupEgress", 0, "ToPort"), 65535),
    ("traffic-no-internet-in", GROUP, ("SecurityGroupIngress", 0, "CidrIp"), "0.0.0.0/0"),
    ("traffic-no-internet-in", IN, ("CidrIpv6",), "::/0"),
    ("traffic-no-ssh", GROUP, ("SecurityGroupIngress", 0, "FromPort"), 20),
    ("traffic-no-ssh", GROUP, ("SecurityGroupIngress", 0), {"IpProtocol": "-1", "CidrIp": "10.0.0.0/8"}),
    ("traffic-no-internet-in", GROUP, ("SecurityGroupIngress", 0, "CidrIp"), "128.0.0.0/1"),
    ("traffic-https-out", GROUP, ("SecurityGroupEgress", 0), {"IpProtocol": "-1", "CidrIp": "0.0.0.0/1"}),
)
