"""What a declaration names and this checkout must know: the image's folder, and its region's S3 addresses."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.declare.checks.secret_values import shown
from slipway.infra.declare.checks.values import nearest
from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.s3_prefix_lists import S3_PREFIX_LISTS
from slipway.infra.declare.types import (
    BatchCluster,
    Cluster,
    Egress,
    FileSystem,
    HyperPodCluster,
    Mpi,
    MpiCluster,
    SlurmCluster,
)
from slipway.jobs.core.errors import Problem
from slipway.jobs.core.images.ami_locks import machine_image_names
from slipway.jobs.core.images.amis import ami_parameter, image_of
from slipway.jobs.core.images.container_images import image_names
from slipway.jobs.core.images.container_locks import read_lock

_LUSTRE = "lustre-client"  # as a lock would call it


def image_of_this_checkout(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, BatchCluster)
    known = image_names(CONTAINERS)
    if cluster.image not in known:
        message = f"is {shown(cluster.image)}, which is not a folder of containers/images with a Dockerfile"
        yield Problem(where="image", message=message, hint=nearest(cluster.image, known))


def machine_image_of_this_checkout(cluster: Cluster) -> Iterator[Problem]:
    assert isinstance(cluster, MpiCluster | SlurmCluster | HyperPodCluster)
    known = machine_image_names(CONTAINERS)
    if cluster.machine_image not in known:
        message = (
            f"is {shown(cluster.machine_image)}, which is not a folder of containers/images with a lock.toml "
            "and no Dockerfile"
        )
        yield Problem(where="machine_image", message=message, hint=nearest(cluster.machine_image, known))


def parameter_of_the_machine_image(cluster: Cluster) -> Iterator[Problem]:
    """Check that a parameter which a bakery writes belongs to the declared machine image."""
    assert isinstance(cluster, MpiCluster | SlurmCluster)
    named = image_of(cluster.ami_parameter)
    if named not in (None, cluster.machine_image):
        yield Problem(
            where="ami_parameter",
            message=f"is {cluster.ami_parameter}, but machine_image is {cluster.machine_image}",
            hint=f"write {ami_parameter(cluster.machine_image)}, or machine_image={named!r}",
        )


def mpi_of_the_machine_image(cluster: Cluster) -> Iterator[Problem]:
    """Check that the machine image holds the MPI that starts the processes."""
    assert isinstance(cluster, MpiCluster)
    is_ours = image_of(cluster.ami_parameter) is not None
    if not is_ours or cluster.machine_image not in machine_image_names(CONTAINERS):
        return
    lock = read_lock(CONTAINERS, cluster.machine_image)
    assert lock is not None, "a machine image has a lock"
    held = [str(mpi) for mpi in Mpi if mpi in lock.host]
    if cluster.mpi not in held:
        yield Problem(
            where="mpi",
            message=f"is {cluster.mpi}, but {cluster.machine_image} has {' and '.join(held) or 'no MPI'}",
            hint="choose what the image holds, or bake one with that MPI in its lock and components",
        )


def lustre_of_the_machine_image(cluster: Cluster) -> Iterator[Problem]:
    """Check that the machine image can mount Lustre: without the client nodes fail at boot."""
    assert isinstance(cluster, MpiCluster)
    if cluster.file_system is not FileSystem.FSX_LUSTRE or image_of(cluster.ami_parameter) is None:
        return
    lock = read_lock(CONTAINERS, cluster.machine_image)
    if lock is not None and _LUSTRE not in lock.host:
        yield Problem(
            where="file_system",
            message=f"is fsx-lustre, but {cluster.machine_image} has no Lustre client",
            hint="use FileSystem.EFS, or an ami_parameter of your own whose image mounts Lustre",
        )


def prefix_list_of_region(cluster: Cluster) -> Iterator[Problem]:
    """Check that the region's S3 addresses are known: without NAT, nodes reach only those."""
    if cluster.egress is Egress.ENDPOINTS and cluster.region not in S3_PREFIX_LISTS:
        yield Problem(
            where="egress",
            message=f"is endpoints in {cluster.region}, whose S3 prefix list is not known",
            hint="add it to infra/declare/s3_prefix_lists.py, or use Egress.NAT",
        )
