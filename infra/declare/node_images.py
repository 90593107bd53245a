"""Chooses the AMI of nodes and the container of their ranks: as declared, or from the table.

The table is jobs/words/catalogue/hardware.py. A declaration that names nothing gets what its type's
accelerators need; one that names something must satisfy the same rules (checks/nodes.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from slipway.infra.declare.machine_images import CONTAINERS
from slipway.infra.declare.types import BatchCluster, Cluster, NodeCluster, SageMakerCluster, SlurmCluster
from slipway.jobs.words.catalogue.hardware import LOGIN_TYPES, device_of, hardware_of
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type
from slipway.jobs.words.images.ami_locks import (
    ARCHITECTURE,
    STARTS_CONTAINERS,
    machine_image_names,
    missing_software,
)
from slipway.jobs.words.images.amis import ami_parameter, image_of
from slipway.jobs.words.images.aws_images import AWS_AMIS, aws_ami_of, published_image, registry_account
from slipway.jobs.words.images.containers import container_platforms, image_names, read_lock

_UBUNTU_ROOT = "/dev/sda1"  # our machine images are made from Ubuntu's


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImage:
    """Describes what nodes may boot: a bake of ours, or one of AWS's own."""

    name: str
    parameters: Mapping[str, str]  # by architecture, the SSM parameter with the AMI's id
    holds: Mapping[str, str]  # versions by component
    is_baked: bool  # False: an AMI of AWS's, to which user data brings what our bakes hold
    root_device: str = _UBUNTU_ROOT
    batch_image_type: str = "ECS_AL2023"  # AWS Batch's name for it, which decides its part of the user data
    owner: str = ""  # the account of AWS's that publishes it; "" for a bake of ours

    @property
    def for_gpus(self) -> bool | None:
        """Return True if AWS Batch takes the image only for GPUs, False if for others; None without Batch."""
        if "ecs-agent" not in self.holds:
            return None
        return self.batch_image_type.endswith("_NVIDIA")


def node_images() -> Mapping[str, NodeImage]:
    """Return every image that nodes may boot, ours first."""
    return _node_images(CONTAINERS)


@lru_cache(maxsize=4)
def _node_images(containers: Path) -> Mapping[str, NodeImage]:
    locks = {name: read_lock(containers, name) for name in machine_image_names(containers)}
    ours = {
        name: NodeImage(
            name=name, parameters={ARCHITECTURE: ami_parameter(name)}, holds=lock.host, is_baked=True
        )
        for name, lock in locks.items()
        if lock is not None
    }
    aws = {
        name: NodeImage(
            name=name,
            parameters=ami.parameters,
            holds=ami.holds,
            is_baked=False,
            root_device=ami.root_device,
            batch_image_type=ami.batch_image_type or "ECS_AL2023",
            owner=ami.owner,
        )
        for name, ami in AWS_AMIS.items()
    }
    return {**ours, **aws}


def fitting_images(kind: type[Cluster], type_: InstanceType) -> tuple[str, ...]:
    """Return the images that drive the type in a cluster of this kind, the table's own choice first."""
    usual = hardware_of(type_).nodes.get(kind.kind)
    if usual is None:
        return ()
    fitting = [
        name
        for name, image in node_images().items()
        if type_.architecture in image.parameters
        and not missing_software(kind.kind, type_, image.holds)
        and (image.for_gpus is None or image.for_gpus == hardware_of(type_).counted_as_gpus)
        and (STARTS_CONTAINERS not in image.holds or _has_container(type_))
    ]
    return tuple(sorted(fitting, key=lambda name: name != usual))


def _has_container(type_: InstanceType) -> bool:
    """Return True if AWS publishes a container for the type: only AWS Batch can use ours."""
    name = hardware_of(type_).container
    platforms = container_platforms(CONTAINERS, name)
    return name not in image_names(CONTAINERS) and (device_of(type_), type_.architecture) in platforms


def booted_image(cluster: NodeCluster) -> str | None:
    """Return the image that nodes boot, or that their AMI was made from; None if it is not known."""
    if cluster.ami_parameter is not None:
        return image_named_by(cluster.ami_parameter) or cluster.ami_made_from
    return cluster.machine_image or hardware_of(instance_type(cluster.instance_type)).nodes.get(cluster.kind)


def image_named_by(parameter: str) -> str | None:
    """Return the known image whose id an SSM parameter holds."""
    named = image_of(parameter)
    return named if named in node_images() else aws_ami_of(parameter)


def node_image_of(cluster: NodeCluster) -> NodeImage:
    """Return the image that the nodes of a valid cluster boot."""
    name = booted_image(cluster)
    found = node_images().get(name or "")
    assert found is not None, f"the gate has looked at the AMI of {cluster.name}"
    return found


def ami_parameter_of(cluster: NodeCluster) -> str:
    """Return the SSM parameter that holds the id of a valid cluster's AMI."""
    architecture = instance_type(cluster.instance_type).architecture
    return cluster.ami_parameter or node_image_of(cluster).parameters[architecture]


def login_type_of(cluster: SlurmCluster) -> str:
    """Return the instance type of the node to which users and `slipway` log in."""
    return cluster.login_instance_type or LOGIN_TYPES[instance_type(cluster.instance_type).architecture]


def slurm_release(cluster: SlurmCluster) -> str:
    """Return the nodes' release of Slurm in AWS PCS's form; they can join no controller of another."""
    return ".".join(node_image_of(cluster).holds["slurm"].split(".")[:2])


def runs_containers(cluster: Cluster) -> bool:
    """Return False if the ranks of a valid cluster run on the node itself."""
    if isinstance(cluster, SlurmCluster):
        return STARTS_CONTAINERS in node_image_of(cluster).holds
    return isinstance(cluster, BatchCluster)


def container_of(cluster: BatchCluster | SlurmCluster) -> str:
    """Return the folder of containers/images whose container runs the ranks."""
    declared = cluster.image if isinstance(cluster, BatchCluster) else None
    return declared or hardware_of(instance_type(cluster.instance_type)).container


def with_defaults(cluster: Cluster) -> Cluster:
    """Return the cluster with the table's choices written out, for users."""
    if not isinstance(cluster, NodeCluster):
        return cluster
    found = replace(
        cluster, machine_image=node_image_of(cluster).name, ami_parameter=ami_parameter_of(cluster)
    )
    if isinstance(found, BatchCluster):
        return replace(found, image=container_of(found))
    if isinstance(found, SlurmCluster):
        return replace(found, login_instance_type=login_type_of(found))
    return found


def training_image(cluster: SageMakerCluster) -> str:
    """Return the URI of the training image for the cluster's region and devices."""
    return _published(cluster.machine_image, cluster)


def container_uri(cluster: BatchCluster | SlurmCluster) -> str | None:
    """Return the container's URI if AWS publishes it; None if it is built from a Dockerfile."""
    name = container_of(cluster)
    return None if name in image_names(CONTAINERS) else _published(name, cluster)


def registry_of(cluster: BatchCluster | SlurmCluster) -> str | None:
    """Return the account of AWS's whose registry has the container; None if it is built."""
    return registry_account(cluster.region) if container_uri(cluster) else None


def _published(name: str, cluster: Cluster) -> str:
    device = device_of(instance_type(cluster.instance_type))
    return published_image(CONTAINERS, name, region=cluster.region, device=device)


def locked_by(cluster: Cluster) -> str:
    """Return the folder of containers/images whose lock has the ranks' software; AWS's AMI has no lock."""
    if isinstance(cluster, BatchCluster):
        return container_of(cluster)
    if isinstance(cluster, SageMakerCluster):
        return cluster.machine_image
    assert isinstance(cluster, NodeCluster), "image or AMI"
    return node_image_of(cluster).name
