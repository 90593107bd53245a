"""A declared Slurm cluster as a configuration of AWS ParallelCluster 3: the other way to deploy it.

Names are those of ParallelCluster's published schema (cluster configuration file, version 3); another setting
is one entry below. What it refuses in custom Slurm settings (Prolog, Gres, OverSubscribe) is not here, so the
health check before a job is not part of this road.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.jobs.cloud.declared import DeclaredCluster
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.slurm.places import QUEUE, SCRATCH, SHARED

OPERATING_SYSTEM = "ubuntu2204"  # of the neuron-slurm image
_SESSION_MANAGER = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
_CAPACITY = {"capacity-block": "CAPACITY_BLOCK"}
_RESERVED = ("capacity-block", "targeted-reservation")

Config = Mapping[str, object]


class NoSlurmCluster(SlipwayError):
    """ParallelCluster deploys Slurm, and this cluster is declared for another scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelClusterPlaces:
    """Says what the cluster stands in that is made before it."""

    subnet_id: str
    ami_id: str | None = None  # None: ParallelCluster's own image of the operating system
    file_system_id: str | None = None  # of the shared home; None: it makes one, and keeps it


def parallelcluster_config(cluster: DeclaredCluster, places: ParallelClusterPlaces) -> Config:
    """Return the configuration, in the order in which people write it."""
    if cluster.kind != "slurm":
        raise NoSlurmCluster(
            f"cluster '{cluster.name}' is of kind {cluster.kind}, and ParallelCluster deploys Slurm",
            hint="name a SlurmCluster of clusters.py",
        )
    image = {"Os": OPERATING_SYSTEM, **({"CustomAmi": places.ami_id} if places.ami_id else {})}
    return {
        "Region": cluster.region,
        "Image": image,
        "Imds": {"ImdsSupport": "v2.0"},
        "HeadNode": _head_node(cluster, places),
        "Scheduling": {
            "Scheduler": "slurm",
            "SlurmSettings": {"ScaledownIdletime": cluster.idle_minutes, "QueueUpdateStrategy": "DRAIN"},
            "SlurmQueues": [_queue(cluster, places)],
        },
        "SharedStorage": list(_storage(cluster, places)),
        "Tags": [{"Key": CLUSTER_TAG, "Value": cluster.name}],
    }


def _head_node(cluster: DeclaredCluster, places: ParallelClusterPlaces) -> Config:
    """Describe the controller, which here is a machine of one's own and takes the logins, too."""
    return {
        "InstanceType": cluster.login_instance_type,
        "Networking": {"SubnetId": places.subnet_id},
        "LocalStorage": _root_volume(cluster),
        "Iam": {"AdditionalIamPolicies": [{"Policy": _SESSION_MANAGER}]},
        "Imds": {"Secured": True},
    }


def _queue(cluster: DeclaredCluster, places: ParallelClusterPlaces) -> Config:
    return {
        "Name": QUEUE,
        "CapacityType": _CAPACITY.get(cluster.market, "ONDEMAND"),
        **_reservation(cluster),
        "JobExclusiveAllocation": True,
        "CustomSlurmSettings": {"MaxTime": f"{cluster.job_timeout_hours}:00:00"},
        "Networking": {
            "SubnetIds": [places.subnet_id],
            # Nodes of a capacity block are close to each other already.
            "PlacementGroup": {"Enabled": cluster.market != "capacity-block"},
        },
        "ComputeSettings": {"LocalStorage": _root_volume(cluster)},
        "Iam": {"AdditionalIamPolicies": [{"Policy": _SESSION_MANAGER}]},
        "ComputeResources": [_workers(cluster, instance_type(cluster.instance_type))],
    }


def _workers(cluster: DeclaredCluster, type_: InstanceType) -> Config:
    """ParallelCluster opens one EFA interface for each network card that has it, by itself."""
    wanted = type_.efa_interfaces if cluster.efa_interfaces is None else cluster.efa_interfaces
    return {
        "Name": "workers",
        "InstanceType": type_.name,
        "MinCount": 0,
        "MaxCount": cluster.max_nodes,
        "Efa": {"Enabled": wanted > 0},
    }


def _reservation(cluster: DeclaredCluster) -> Config:
    if cluster.market not in _RESERVED:
        return {}
    return {"CapacityReservationTarget": {"CapacityReservationId": cluster.reservation_id}}


def _root_volume(cluster: DeclaredCluster) -> Config:
    return {"RootVolume": {"VolumeType": "gp3", "Size": cluster.root_volume_gib, "Encrypted": True}}


def _storage(cluster: DeclaredCluster, places: ParallelClusterPlaces) -> tuple[Config, ...]:
    own = {"Encrypted": True, "ThroughputMode": "bursting", "DeletionPolicy": "Retain"}
    mounted = {"FileSystemId": places.file_system_id, "EncryptionInTransit": True, "IamAuthorization": True}
    home = {
        "MountDir": SHARED,
        "Name": "home",
        "StorageType": "Efs",
        "EfsSettings": mounted if places.file_system_id else own,
    }
    lustre = {
        "MountDir": SCRATCH,
        "Name": "scratch",
        "StorageType": "FsxLustre",
        "FsxLustreSettings": {
            "StorageCapacity": cluster.fsx_capacity_gib,
            "DeploymentType": "PERSISTENT_2",
            "PerUnitStorageThroughput": cluster.fsx_mbps_per_tib,
            "DeletionPolicy": "Delete",
        },
    }
    return (home, lustre) if cluster.scratch else (home,)
