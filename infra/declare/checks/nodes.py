"""What nodes must be able to do: their type, the software of their AMI, and of the container over it.

SOFTWARE of jobs/words/images/ami_locks.py is the table of what an AMI must hold. Each hint names settings
with which the cluster is sound, as a test sees that follows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipway.infra.declare.checks.alternatives import another_kind, another_type
from slipway.infra.declare.checks.node_images import (
    baked_settings,
    changed,
    fitting_images,
    image_of_nodes,
    locked_software,
    own_settings,
    written,
)
from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.types import (
    BatchCluster,
    Cluster,
    FileSystem,
    Mpi,
    MpiCluster,
    NodeCluster,
    SlurmCluster,
)
from slipway.jobs.words.catalogue.instances import InstanceType, family_of, instance_type
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.ami_locks import ARCHITECTURE, missing_software
from slipway.jobs.words.images.containers import image_names, read_lock

_LUSTRE = "lustre-client"  # as a lock would call it


def type_with_images(cluster: Cluster) -> Iterator[Problem]:
    """Check that a machine image drives the type in a cluster of this kind."""
    kind, type_ = type(cluster), instance_type(cluster.instance_type)
    where = "instance_type"
    if not fitting_images(kind, type_):
        assert type_.accelerator is not None, f"a {kind.__name__} has an image for processors"
        message = f"is {type_.name}, whose {type_.accelerator.name} nothing in a {kind.__name__} drives"
        yield Problem(where=where, message=message, hint=another_kind(kind, type_, cluster.region))
    elif type_.architecture != ARCHITECTURE:
        message = f"is {type_.name}, which is {type_.architecture}, but Slipway's AMIs are {ARCHITECTURE}"
        hint = another_type(type_, cluster.region, cluster.efa_interfaces or 0)
        yield Problem(where=where, message=message, hint=hint)


def software_of_the_ami(cluster: Cluster) -> Iterator[Problem]:
    """Check that the machine image has what the kind needs, and what the type's accelerators need."""
    assert isinstance(cluster, NodeCluster)
    image, type_ = image_of_nodes(cluster), instance_type(cluster.instance_type)
    fitting = fitting_images(type(cluster), type_)
    if image is None or not fitting or image in fitting:
        return
    where = "machine_image" if hasattr(cluster, "machine_image") else "ami_parameter"
    is_own = cluster.ami_made_from is not None
    settings = own_settings if is_own else baked_settings
    missing = missing_software(cluster.kind, type_, locked_software(image))
    yield Problem(
        where="ami_made_from" if is_own else where,
        message=f"is {image}, {_which_lacks(missing, type_)}",
        hint=f"use {changed(cluster, settings(type(cluster), fitting[0]))}",
    )


def mpi_of_the_ami(cluster: Cluster) -> Iterator[Problem]:
    """Check that nodes hold the MPI that starts the processes."""
    assert isinstance(cluster, MpiCluster)
    held = [mpi for mpi in Mpi if mpi in _held(cluster)]
    if held and cluster.mpi not in held:
        yield Problem(
            where="mpi",
            message=f"is {cluster.mpi}, but {cluster.machine_image} has {' and '.join(held)}",
            hint=f"use {written({'mpi': held[0]})}, or {_own_ami_with(cluster, cluster.mpi)}",
        )


def lustre_of_the_ami(cluster: Cluster) -> Iterator[Problem]:
    """Check that nodes can mount the Lustre that is declared: without its client they fail at boot."""
    assert isinstance(cluster, NodeCluster)
    where, instead = (
        ("scratch", False) if isinstance(cluster, SlurmCluster) else ("file_system", FileSystem.EFS)
    )
    value, held = getattr(cluster, where), _held(cluster)
    if held and value in (True, FileSystem.FSX_LUSTRE) and _LUSTRE not in held:
        yield Problem(
            where=where,
            message=f"is {value}, but {image_of_nodes(cluster)} has no Lustre client: nodes fail at boot",
            hint=f"use {written({where: instead})}, or {_own_ami_with(cluster, _LUSTRE)}",
        )


def software_of_the_container(cluster: Cluster) -> Iterator[Problem]:
    """Check that the container image can use the accelerators that its node has."""
    assert isinstance(cluster, BatchCluster)
    type_, known = instance_type(cluster.instance_type), image_names(CONTAINERS)
    family = family_of(type_)
    if family is None or cluster.image not in known or not fitting_images(BatchCluster, type_):
        return
    locks = {name: read_lock(CONTAINERS, name) for name in known}
    fitting = [name for name, lock in locks.items() if lock and family.driver in lock.host]
    if cluster.image not in fitting:
        yield Problem(
            where="image",
            message=f"is {cluster.image}, {_which_lacks([family.driver], type_)}",
            hint=f"use {' or '.join(written({'image': name}) for name in fitting)}",
        )


def _which_lacks(missing: Sequence[str], type_: InstanceType) -> str:
    family, accelerator = family_of(type_), type_.accelerator
    text = f"which has no {' and no '.join(missing)}"
    if family and accelerator and family.driver in missing:
        return f"{text}, so that nothing drives the {accelerator.name} of {type_.name}"
    return text


def _held(cluster: NodeCluster) -> frozenset[str]:
    """Return what sound nodes have; nothing where another rule refuses their type or their AMI."""
    image = image_of_nodes(cluster)
    if image is None or image not in fitting_images(type(cluster), instance_type(cluster.instance_type)):
        return frozenset()
    return frozenset({*locked_software(image), *cluster.ami_adds})


def _own_ami_with(cluster: NodeCluster, software: str) -> str:
    image = image_of_nodes(cluster)
    assert image is not None, "its software was looked at"
    settings = {"ami_made_from": image, "ami_adds": (*cluster.ami_adds, str(software))}
    return f"{changed(cluster, settings)} and the ami_parameter of your own AMI that has it"
