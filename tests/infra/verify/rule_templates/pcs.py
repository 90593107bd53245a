"""A cluster, its machines and their roles on AWS PCS: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import DATA, GONE, TEMPLATE, BadRow

CLUSTER = "AWS::PCS::Cluster"
GROUP = "AWS::PCS::ComputeNodeGroup"
PROFILE = "AWS::IAM::InstanceProfile"
SLURM = ("SlurmConfiguration",)


GOOD: Mapping[str, Any] = {
    "Scheduler": {
        "Type": CLUSTER,
        "Properties": {
            "SlurmConfiguration": {
                "Accounting": {"Mode": "STANDARD"},
                "ScaleDownIdleTimeInSeconds": 600,
            }
        },
    },
    "Workers": {
        "Type": GROUP,
        "Properties": {
            "AmiId": {"Ref": "NodeImage"},
            "SubnetIds": [{"Ref": "Subnet"}],
            "InstanceConfigs": [{"InstanceType": "dl1.24xlarge"}],
            "ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 4},
            "CustomLaunchTemplate": {
                "TemplateId": {"Ref": "Template"},
                "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
            },
            "IamInstanceProfileArn": {"Fn::GetAtt": ["Profile", "Arn"]},
            "SlurmConfiguration": {
                "GresCustomSettings": [{"Name": "gaudi", "Count": "8"}],
                "SlurmCustomSettings": [{"ParameterName": "Gres", "ParameterValue": "gaudi:8"}],
            },
        },
    },
}

BAD: tuple[BadRow, ...] = (
    ("efa-interfaces", GROUP, ("InstanceConfigs",), [{"InstanceType": "trn1.2xlarge"}]),
    ("pcs-accounts", CLUSTER, (*SLURM, "Accounting"), GONE),
    ("pcs-accounts", CLUSTER, (*SLURM, "Accounting", "Mode"), "NONE"),
    ("pcs-close", GROUP, ("SubnetIds",), [{"Ref": "Subnet"}, {"Ref": "Another"}]),
    ("pcs-close", TEMPLATE, (*DATA, "Placement"), GONE),
    ("pcs-close", "AWS::EC2::PlacementGroup", ("Strategy",), "spread"),
    ("pcs-devices", GROUP, (*SLURM, "GresCustomSettings"), GONE),
    ("pcs-devices", GROUP, (*SLURM, "SlurmCustomSettings", 0, "ParameterValue"), "gaudi:16"),
    ("pcs-machines-named", GROUP, ("AmiId",), GONE),
    ("pcs-machines-named", GROUP, ("CustomLaunchTemplate", "Version"), "$Latest"),
    ("pcs-nothing-idle", CLUSTER, (*SLURM, "ScaleDownIdleTimeInSeconds"), GONE),
    ("pcs-nothing-idle", GROUP, ("ScalingConfiguration", "MinInstanceCount"), 1),
    ("pcs-nothing-idle", GROUP, ("ScalingConfiguration", "MinInstanceCount"), 4),
    ("pcs-roles", PROFILE, ("Path",), GONE),
    ("pcs-roles", PROFILE, ("Roles",), []),
    ("pcs-roles", "AWS::IAM::Role", ("Path",), "/"),
    ("pcs-roles", GROUP, ("IamInstanceProfileArn",), "arn:aws:iam::123456789012:instance-profile/mine"),
)
