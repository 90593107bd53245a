"""Bakeries of machine images: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import GONE, BadRow

COMPONENT = "AWS::ImageBuilder::Component"
RECIPE = "AWS::ImageBuilder::ImageRecipe"
BAKED_ON = "AWS::ImageBuilder::InfrastructureConfiguration"
PIPELINE = "AWS::ImageBuilder::ImagePipeline"
DISTRIBUTION = "AWS::ImageBuilder::DistributionConfiguration"
SOUND_COMPONENT = """
name: tool
schemaVersion: 1.0
parameters:
  - ToolSha256: {type: string}
phases:
  - name: build
    steps:
      - name: Download
        action: WebDownload
        onFailure: Abort
        inputs: [{source: "https://a.b", destination: /a, algorithm: SHA256, checksum: "{{ ToolSha256 }}"}]
  - name: test
    steps: []
"""


GOOD: Mapping[str, Any] = {
    "Component": {"Type": COMPONENT, "Properties": {"Data": SOUND_COMPONENT}},
    "Recipe": {
        "Type": RECIPE,
        "Properties": {"BlockDeviceMappings": [{"Ebs": {"Encrypted": True}}]},
    },
    "BakedOn": {
        "Type": BAKED_ON,
        "Properties": {
            "InstanceMetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "SubnetId": {"Ref": "Subnet"},
            "SecurityGroupIds": [{"Ref": "Group"}],
            "TerminateInstanceOnFailure": True,
        },
    },
    "Pipeline": {
        "Type": PIPELINE,
        "Properties": {"ImageTestsConfiguration": {"ImageTestsEnabled": True}},
    },
    "Distribution": {
        "Type": DISTRIBUTION,
        "Properties": {"Distributions": [{"AmiDistributionConfiguration": {"Name": "image"}}]},
    },
}

BAD: tuple[BadRow, ...] = (
    ("bakery-closed", BAKED_ON, ("InstanceMetadataOptions", "HttpTokens"), "optional"),
    ("bakery-closed", BAKED_ON, ("InstanceMetadataOptions", "HttpPutResponseHopLimit"), 2),
    ("bakery-closed", BAKED_ON, ("SubnetId",), GONE),
    ("bakery-closed", BAKED_ON, ("SecurityGroupIds",), []),
    ("bakery-closed", BAKED_ON, ("KeyPair",), "mine"),
    ("bakery-closed", BAKED_ON, ("TerminateInstanceOnFailure",), False),
    ("bakery-components", COMPONENT, ("Data",), SOUND_COMPONENT.replace("checksum", "sum")),
    ("bakery-components", COMPONENT, ("Data",), "a: [b"),
    ("bakery-components", COMPONENT, ("Data",), "nothing"),
    ("bakery-disks-encrypted", RECIPE, ("BlockDeviceMappings", 0, "Ebs", "Encrypted"), False),
    ("bakery-disks-encrypted", RECIPE, ("BlockDeviceMappings",), GONE),
    ("bakery-tested", PIPELINE, ("ImageTestsConfiguration", "ImageTestsEnabled"), False),
    ("bakery-tested", PIPELINE, ("Schedule",), {"ScheduleExpression": "rate(1 day)"}),
    (
        "bakery-tested",
        DISTRIBUTION,
        ("Distributions", 0, "AmiDistributionConfiguration", "LaunchPermissionConfiguration"),
        {"UserGroups": ["all"]},
    ),
)
