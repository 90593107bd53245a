"""What the settings of a Slurm cluster must be to each other; rules.py lists them."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.types import Cluster, FileSystem, Market, SlurmCluster
from slipway.jobs.catalogue.accelerators import family_of
from slipway.jobs.catalogue.instances import InstanceType, instance_type
from slipway.jobs.core.errors import Problem
from slipway.jobs.core.images.ami_locks import machine_image_names
from slipway.jobs.core.images.amis import image_of
from slipway.jobs.core.images.container_locks import Lock, read_lock
from slipway.jobs.core.slurm.controllers import most_workers, smallest_controller

_SLURM = ("slurm", "pcs-agent")  # as a lock calls them
_LUSTRE = "lustre-client"


def controller_with_room(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, SlurmCluster)
    size = cluster.controller
    if size is not None and cluster.max_nodes > most_workers(size):
        yield Problem(
            where="max_nodes",
            message=f"is {cluster.max_nodes}, but a {size} controller has room for {most_workers(size)} "
            "workers, and AWS PCS changes no controller's size",
            hint=f"or destroy the cluster and deploy it as {smallest_controller(cluster.max_nodes)}",
        )


def home_on_efs(cluster: Cluster) -> Iterator[Problem]:
    """Check that homes and job folders are shared: sbatch writes on the node that runs the job."""
    if cluster.file_system is not FileSystem.EFS:
        yield Problem(
            where="file_system",
            message=f"is {cluster.file_system}, but the home and the folders of jobs are on EFS",
            hint="use FileSystem.EFS; scratch=True adds an FSx for Lustre",
        )


def no_spot_with_slurm(cluster: Cluster) -> Iterator[Problem]:
    if cluster.market is Market.SPOT:
        yield Problem(
            where="market",
            message="is spot, which ends a job of many nodes with each single one that AWS takes back",
            hint="use Market.ON_DEMAND, a reservation, or Market.CAPACITY_BLOCK",
        )


def slurm_of_the_machine_image(cluster: Cluster) -> Iterator[Problem]:
    """Check that the image holds Slurm, PCS's agent, and the driver of the accelerators."""
    assert isinstance(cluster, SlurmCluster)
    lock, type_ = _own_lock(cluster), instance_type(cluster.instance_type)
    if lock is None:
        return
    if missing := missing_software(lock, type_, *_SLURM):
        yield Problem(
            where="machine_image",
            message=f"is {cluster.machine_image}, which has no {missing}",
            hint="use neuron-slurm and its ami_parameter, or bake an image that has them",
        )


def lustre_for_scratch(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, SlurmCluster)
    lock = _own_lock(cluster) if cluster.scratch else None
    if lock is not None and _LUSTRE not in lock.host:
        yield Problem(
            where="scratch",
            message=f"is True, but {cluster.machine_image} has no Lustre client, so that nodes fail at boot",
            hint="leave it out, or use an ami_parameter of your own whose image mounts Lustre",
        )


def login_node_of_one_architecture(cluster: Cluster) -> Iterator[Problem]:
    """Check that the login node runs the workers' machine image."""
    assert isinstance(cluster, SlurmCluster)
    login, worker = instance_type(cluster.login_instance_type), instance_type(cluster.instance_type)
    if login.architecture != worker.architecture:
        yield Problem(
            where="login_instance_type",
            message=f"is {login.name} ({login.architecture}), but the image is for {worker.architecture}",
            hint=f"use a type of {worker.architecture}, such as c6i.large",
        )


def missing_software(lock: Lock, type_: InstanceType, *wanted: str) -> str:
    """Name what the lock lacks of this, and of the driver of the type's accelerators."""
    family = family_of(type_)
    names = (*wanted, *((family.driver,) if family else ()))
    return " and no ".join(name for name in names if name not in lock.host)


def _own_lock(cluster: SlurmCluster) -> Lock | None:
    """Return the lock of a machine image of ours; None where somebody else bakes it, or nobody does."""
    known = cluster.machine_image in machine_image_names(CONTAINERS)
    if image_of(cluster.ami_parameter) is None or not known:
        return None
    return read_lock(CONTAINERS, cluster.machine_image)
