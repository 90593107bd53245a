"""The same declaration as a configuration of ParallelCluster: in its words, with what the article had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from slipway.jobs.cloud.declared import declared_cluster
from slipway.jobs.clusters.parallelcluster import (
    NoSlurmCluster,
    ParallelClusterPlaces,
    parallelcluster_config,
)
from slipway.jobs.words.yaml_text import to_yaml
from tests.jobs.conftest import Slipway

TRN1 = declared_cluster("trn1")
SUBNET = "subnet-0123456789abcdef0"
PLACES = ParallelClusterPlaces(subnet_id=SUBNET)
# The keys that each object takes, of those that we write: aws/aws-parallelcluster 3.12, cli/src/pcluster/
# schemas/cluster_schema.py. 3.16's own is not at hand; keys are not taken away within version 3.
_VOLUME = {"VolumeType", "Size", "Encrypted", "Iops", "Throughput"}
SCHEMA: Mapping[str, set[str]] = {
    "": {"Region", "Image", "Imds", "HeadNode", "Scheduling", "SharedStorage", "Tags", "Monitoring"},
    "Image": {"Os", "CustomAmi"},
    "Imds": {"ImdsSupport"},
    "HeadNode": {"InstanceType", "Networking", "LocalStorage", "Iam", "Imds", "Ssh"},
    "HeadNode.Networking": {"SubnetId", "ElasticIp"},
    "HeadNode.LocalStorage": {"RootVolume", "EphemeralVolume"},
    "HeadNode.LocalStorage.RootVolume": _VOLUME,
    "HeadNode.Iam": {"AdditionalIamPolicies", "S3Access"},
    "HeadNode.Iam.AdditionalIamPolicies": {"Policy"},
    "HeadNode.Imds": {"Secured"},
    "Scheduling": {"Scheduler", "SlurmSettings", "SlurmQueues"},
    "Scheduling.SlurmSettings": {"ScaledownIdletime", "QueueUpdateStrategy", "CustomSlurmSettings"},
    "Scheduling.SlurmQueues": {
        *("Name", "CapacityType", "CapacityReservationTarget", "JobExclusiveAllocation"),
        *("CustomSlurmSettings", "Networking", "ComputeSettings", "Iam", "ComputeResources"),
    },
    "Scheduling.SlurmQueues.CapacityReservationTarget": {"CapacityReservationId"},
    "Scheduling.SlurmQueues.CustomSlurmSettings": {"MaxTime"},  # any but its deny list
    "Scheduling.SlurmQueues.Networking": {"SubnetIds", "PlacementGroup", "AssignPublicIp"},
    "Scheduling.SlurmQueues.Networking.PlacementGroup": {"Enabled", "Id", "Name"},
    "Scheduling.SlurmQueues.ComputeSettings": {"LocalStorage"},
    "Scheduling.SlurmQueues.ComputeSettings.LocalStorage": {"RootVolume", "EphemeralVolume"},
    "Scheduling.SlurmQueues.ComputeSettings.LocalStorage.RootVolume": _VOLUME,
    "Scheduling.SlurmQueues.Iam": {"AdditionalIamPolicies", "S3Access"},
    "Scheduling.SlurmQueues.Iam.AdditionalIamPolicies": {"Policy"},
    "Scheduling.SlurmQueues.ComputeResources": {"Name", "InstanceType", "MinCount", "MaxCount", "Efa"},
    "Scheduling.SlurmQueues.ComputeResources.Efa": {"Enabled", "GdrSupport"},
    "SharedStorage": {"MountDir", "Name", "StorageType", "EfsSettings", "FsxLustreSettings"},
    "SharedStorage.EfsSettings": {
        *("Encrypted", "ThroughputMode", "DeletionPolicy", "FileSystemId"),
        *("EncryptionInTransit", "IamAuthorization"),
    },
    "SharedStorage.FsxLustreSettings": {
        *("StorageCapacity", "DeploymentType", "PerUnitStorageThroughput", "DeletionPolicy"),
    },
    "Tags": {"Key", "Value"},
}


def unknown_keys(value: object, path: str = "") -> list[str]:
    if isinstance(value, list):
        return [found for each in value for found in unknown_keys(each, path)]
    if not isinstance(value, Mapping):
        return []
    below = [found for key, each in value.items() for found in unknown_keys(each, f"{path}.{key}".strip("."))]
    return [f"{path}.{key}" for key in value if key not in SCHEMA[path]] + below


def config(
    changes: Mapping[str, Any] | None = None, places: ParallelClusterPlaces = PLACES
) -> dict[str, Any]:
    """Return what ParallelCluster reads: through YAML and back."""
    found: dict[str, Any] = yaml.safe_load(
        to_yaml(parallelcluster_config(replace(TRN1, **(changes or {})), places))
    )
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scratch": True},
        {"market": "capacity-block", "reservation_id": "cr-0123456789abcdef0"},
    ],
    ids=str,
)
def test_every_key_is_one_of_the_published_schema(changes: dict[str, Any]) -> None:
    assert unknown_keys(config(changes)) == []


def test_workers_scale_from_none_with_every_efa_interface_close_together() -> None:
    (queue,) = config()["Scheduling"]["SlurmQueues"]
    assert queue["ComputeResources"] == [
        {
            "Name": "workers",
            "InstanceType": "trn1.32xlarge",
            "MinCount": 0,
            "MaxCount": 16,
            "Efa": {"Enabled": True},
        }
    ]
    assert queue["Networking"] == {"SubnetIds": [SUBNET], "PlacementGroup": {"Enabled": True}}
    assert queue["CustomSlurmSettings"] == {"MaxTime": "48:00:00"}


def test_a_capacity_block_is_named_and_has_no_placement_group() -> None:
    bought = {"market": "capacity-block", "reservation_id": "cr-0123456789abcdef0"}
    (queue,) = config(bought)["Scheduling"]["SlurmQueues"]
    assert queue["CapacityType"] == "CAPACITY_BLOCK"
    assert queue["CapacityReservationTarget"] == {"CapacityReservationId": "cr-0123456789abcdef0"}
    assert queue["Networking"]["PlacementGroup"] == {"Enabled": False}


def test_the_home_is_the_deployed_file_system_where_one_is_named() -> None:
    places = replace(PLACES, file_system_id="fs-1", ami_id="ami-1")
    found = config(places=places)
    assert found["SharedStorage"][0]["EfsSettings"]["FileSystemId"] == "fs-1"
    assert found["Image"] == {"Os": "ubuntu2204", "CustomAmi": "ami-1"}
    assert config()["SharedStorage"][0]["EfsSettings"]["DeletionPolicy"] == "Retain"


def test_a_cluster_of_another_scheduler_is_refused() -> None:
    with pytest.raises(NoSlurmCluster, match="'c6i' is of kind mpi"):
        parallelcluster_config(declared_cluster("c6i"), PLACES)


def test_the_command_prints_yaml_and_nothing_else(slipway: Slipway) -> None:
    code, out, err = slipway("render", "parallelcluster", "trn1", "--subnet", SUBNET)
    assert (code, err) == (0, "")
    assert yaml.safe_load(out) == config()
