"""A cluster on HyperPod: what passes every rule, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates.names import GONE, SELF, BadRow

CLUSTER = "AWS::SageMaker::Cluster"
WORKERS = ("InstanceGroups", 1)


def _group(name: str, slurm: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "InstanceGroupName": name,
        "SlurmConfig": slurm,
        "LifeCycleConfig": {"SourceS3Uri": "s3://assets/a/", "OnInitComplete": "a.sh"},
    }


GOOD: Mapping[str, Any] = {
    "Nodes": {
        "Type": CLUSTER,
        "Properties": {
            "InstanceGroups": [
                _group("controller", {"NodeType": "Controller"}),
                _group("workers", {"NodeType": "Compute", "PartitionNames": ["train"]}),
            ],
            "Orchestrator": {"Slurm": {"SlurmConfigStrategy": "Managed"}},
            "VpcConfig": {"Subnets": [{"Ref": "Subnet"}], "SecurityGroupIds": [SELF]},
            "Tags": [{"Key": "slipway:cluster", "Value": "pod"}],
        },
    }
}

BAD: tuple[BadRow, ...] = (
    ("hyperpod-counted", CLUSTER, ("Tags",), []),
    ("hyperpod-group", CLUSTER, ("VpcConfig",), GONE),
    ("hyperpod-group", CLUSTER, ("VpcConfig", "SecurityGroupIds"), [{"Ref": "Another"}]),
    ("hyperpod-scripts", CLUSTER, (*WORKERS, "LifeCycleConfig"), GONE),
    (
        "hyperpod-scripts",
        CLUSTER,
        (*WORKERS, "LifeCycleConfig"),
        {"SourceS3Uri": "s3://a/", "OnCreate": "on_create.sh"},
    ),
    ("hyperpod-slurm", CLUSTER, ("Orchestrator",), GONE),
    ("hyperpod-slurm", CLUSTER, (*WORKERS, "SlurmConfig"), {"NodeType": "Controller"}),
    ("hyperpod-slurm", CLUSTER, (*WORKERS, "SlurmConfig", "PartitionNames"), GONE),
)
