"""Checks what nodes must be able to do: rules for type, AMI and container of every kind of cluster.

infra/declare/node_images.py decides which images fit. Each hint names settings that make the cluster valid,
as a test checks by following them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from functools import lru_cache

from slipway.infra.declare.checks.values import nearest, shown
from slipway.infra.declare.machine_images import CONTAINERS
from slipway.infra.declare.node_images import (
    booted_image,
    container_of,
    container_uri,
    fitting_images,
    image_named_by,
    node_images,
)
from slipway.infra.declare.types import (
    BatchCluster,
    Cluster,
    Egress,
    FileSystem,
    Mpi,
    MpiCluster,
    NodeCluster,
    SageMakerCluster,
    SlurmCluster,
)
from slipway.jobs.words.catalogue.hardware import device_of, family_of
from slipway.jobs.words.catalogue.instances import (
    SAGEMAKER,
    InstanceType,
    instance_type,
    instance_types,
    names_like,
)
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.ami_locks import STARTS_CONTAINERS, missing_software
from slipway.jobs.words.images.aws_images import NoPublishedImage
from slipway.jobs.words.images.containers import container_names, container_platforms

_LUSTRE = "lustre-client"  # the name in a lock
_OF_AWS = "/aws/"  # prefix of the names of AWS's own parameters

Settings = Mapping[str, object]


def type_with_images(cluster: Cluster) -> Iterator[Problem]:
    """Check that an AMI drives the type in a cluster of this kind."""
    kind, type_ = type(cluster), instance_type(cluster.instance_type)
    if fitting_images(kind, type_):
        return
    where = "instance_type"
    if type_.accelerator is not None:
        message = f"is {type_.name}, whose {type_.accelerator.name} nothing in a {kind.__name__} drives"
        yield Problem(where=where, message=message, hint=another_kind(kind, type_, cluster.region))
    else:
        message = f"is {type_.name}, which is {type_.architecture}, and no AMI of a {kind.__name__} is"
        hint = another_type(kind, type_, cluster.region, cluster.efa_interfaces or 0)
        yield Problem(where=where, message=message, hint=hint)


def ami_of_the_table(cluster: NodeCluster) -> Iterator[Problem]:
    """Check that the AMI's settings name one known image, and all the same.

    Our bakes hold what joins a cluster, ends a lost node and runs around jobs; user data brings it to those
    AMIs of AWS's in the table. Nodes of any other AMI are billed until somebody notices them.
    """
    fitting = fitting_images(type(cluster), instance_type(cluster.instance_type))
    if not fitting or cluster.machine_image not in (None, *node_images()):
        return  # another rule refuses the type, or the name
    image = cluster.machine_image if cluster.machine_image in fitting else fitting[0]
    for wrong in (_claim_without_effect, _unknown_ami, _unknown_claim, _another_image):
        if problem := wrong(cluster, image):
            yield problem
            return


def _claim_without_effect(cluster: NodeCluster, image: str) -> Problem | None:
    parameter = cluster.ami_parameter
    named = image_named_by(parameter) if parameter else booted_image(cluster)
    if named is None or not (cluster.ami_made_from or cluster.ami_adds):
        return None
    own = changed(cluster, own_settings(cluster, image))
    what = f"{parameter} names {named}" if parameter else f"nodes boot {named}"
    unset = changed(cluster, {"ami_made_from": None, "ami_adds": ()})
    return Problem(
        where="ami_made_from" if cluster.ami_made_from else "ami_adds",
        message=f"has no effect: {what} as it is published",
        hint=f"use {unset}, or {own and f'{own} and '}the ami_parameter of your own AMI",
    )


def _unknown_ami(cluster: NodeCluster, image: str) -> Problem | None:
    parameter = cluster.ami_parameter
    if parameter is None or image_named_by(parameter):
        return None
    is_of_aws = parameter.startswith(_OF_AWS)
    if cluster.ami_made_from and not is_of_aws:
        return None
    claim = f", or {changed(cluster, own_settings(cluster, image))} if you made this AMI from {image}"
    return Problem(
        where="ami_parameter",
        message=f"is {parameter}, an AMI without Slipway's boot: its nodes join nothing, and no watchdog "
        "ends them",
        hint=f"use {changed(cluster, known_settings(cluster, image))}{'' if is_of_aws else claim}",
    )


def _unknown_claim(cluster: NodeCluster, _image: str) -> Problem | None:
    known, made_from = tuple(node_images()), cluster.ami_made_from
    if made_from is None or made_from in known:
        return None
    message = f"is {shown(made_from)}, which is no machine image of Slipway's or AWS's"
    return Problem(where="ami_made_from", message=message, hint=nearest(made_from, known))


def _another_image(cluster: NodeCluster, image: str) -> Problem | None:
    declared, where = cluster.machine_image, "ami_parameter"
    if declared in (None, booted_image(cluster)):
        return None
    settings = known_settings(cluster, image)
    if cluster.ami_made_from:
        where, settings = "ami_made_from", own_settings(cluster, image)
    return Problem(
        where=where,
        message=f"is {getattr(cluster, where)}, but machine_image is {declared}",
        hint=f"use {changed(cluster, settings)}",
    )


def software_of_the_ami(cluster: NodeCluster) -> Iterator[Problem]:
    """Check that the AMI has what the kind, and the type's accelerators and processors, need."""
    image, type_ = image_of_nodes(cluster), instance_type(cluster.instance_type)
    fitting = fitting_images(type(cluster), type_)
    if image is None or not fitting or image in fitting:
        return
    is_own = cluster.ami_made_from is not None
    settings = own_settings if is_own else known_settings
    where = "machine_image" if cluster.machine_image else "ami_parameter"
    yield Problem(
        where="ami_made_from" if is_own else where,
        message=f"is {image}, {_why_unfit(cluster, image, type_)}",
        hint=f"use {changed(cluster, settings(cluster, fitting[0]))}",
    )


def _why_unfit(cluster: NodeCluster, image: str, type_: InstanceType) -> str:
    found = node_images()[image]
    if missing := missing_software(cluster.kind, type_, found.holds):
        family, accelerator = family_of(type_), type_.accelerator
        text = f"which has no {' and no '.join(missing)}"
        if family and accelerator and family.driver in missing:
            return f"{text}, so that nothing drives the {accelerator.name} of {type_.name}"
        return text
    if type_.architecture not in found.parameters:
        return f"an AMI for {' and '.join(found.parameters)}, and {type_.name} is {type_.architecture}"
    return f"which AWS Batch takes for GPU types alone ({found.batch_image_type})"


def mpi_of_the_ami(cluster: MpiCluster) -> Iterator[Problem]:
    """Check that nodes have the MPI that starts the processes."""
    held = [mpi for mpi in Mpi if mpi in _held(cluster)]
    if held and cluster.mpi not in held:
        yield Problem(
            where="mpi",
            message=f"is {cluster.mpi}, but {image_of_nodes(cluster)} has {' and '.join(held)}",
            hint=f"use {written({'mpi': held[0]})}, or {_own_ami_with(cluster, cluster.mpi)}",
        )


def lustre_of_the_ami(cluster: NodeCluster) -> Iterator[Problem]:
    """Check that nodes can mount the declared Lustre: without its client they fail at boot."""
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


def container_of_the_type(cluster: BatchCluster) -> Iterator[Problem]:
    """Check that the container image is for the node's processors and accelerators."""
    type_, image = instance_type(cluster.instance_type), container_of(cluster)
    if cluster.image not in (None, *container_names(CONTAINERS)) or not fitting_images(BatchCluster, type_):
        return  # another rule refuses the name, or the type
    fitting = [
        name
        for name in container_names(CONTAINERS)
        if any(
            architecture == type_.architecture and (family_of(type_) is None or device == device_of(type_))
            for device, architecture in container_platforms(CONTAINERS, name)
        )
    ]
    if image in fitting:
        yield from _unpublished(cluster)
        return
    what = type_.accelerator.name if type_.accelerator else type_.architecture
    ways = " or ".join(written({"image": name}) for name in fitting)
    yield Problem(
        where="image",
        message=f"is {image}, which is not for the {what} of {type_.name}",
        hint=f"use {ways}" if ways else "no container here is: declare another instance_type",
    )


def _unpublished(cluster: BatchCluster | SlurmCluster) -> Iterator[Problem]:
    where = "image" if isinstance(cluster, BatchCluster) else "region"
    try:
        container_uri(cluster)
    except NoPublishedImage as error:
        yield Problem(where=where, message=f"cannot be used: {error.message}", hint=error.hint)


def container_on_slurm(cluster: SlurmCluster) -> Iterator[Problem]:
    """Check that ranks on AWS's own AMI have a container, and that nodes can fetch what runs it."""
    if STARTS_CONTAINERS not in _held(cluster):
        return
    yield from _unpublished(cluster)
    if cluster.egress is not Egress.NAT:
        yield Problem(
            where="egress",
            message=f"is {cluster.egress}, but nodes of {image_of_nodes(cluster)} fetch what runs their "
            "containers from GitHub and Ubuntu when they first boot",
            hint=f"use {written({'egress': Egress.NAT})}",
        )


def _held(cluster: NodeCluster) -> frozenset[str]:
    """Return what valid nodes have; nothing if another rule refuses their type or their AMI."""
    image = image_of_nodes(cluster)
    if image is None or image not in fitting_images(type(cluster), instance_type(cluster.instance_type)):
        return frozenset()
    return frozenset({*node_images()[image].holds, *cluster.ami_adds})


def _own_ami_with(cluster: NodeCluster, software: str) -> str:
    image = image_of_nodes(cluster)
    assert image is not None, "its software was looked at"
    settings = {"ami_made_from": image, "ami_adds": (*cluster.ami_adds, str(software))}
    return f"{changed(cluster, settings)} and the ami_parameter of your own AMI that has it"


def image_of_nodes(cluster: NodeCluster) -> str | None:
    """Return the known image that nodes boot, or that their AMI was made from; None if settings disagree."""
    found = booted_image(cluster)
    return found if found in node_images() and cluster.machine_image in (None, found) else None


# Suggestions of hints on an instance type: another kind of cluster, or another type, that works.
_KINDS: tuple[type[Cluster], ...] = (BatchCluster, MpiCluster, SlurmCluster)


def another_kind(kind: type[Cluster], type_: InstanceType, region: str) -> str:
    """Return, as a hint, the kinds of cluster that drive the type's accelerators, with their settings."""
    found = [
        f"{each.__name__}({written({'instance_type': type_.name, **_way_out(fitting[0])})})"
        for each in _KINDS
        if each is not kind and (fitting := fitting_images(each, type_))
    ]
    if found:
        return f"use {' or '.join(found)}"
    return (
        f"such a GPU runs on SageMaker alone: use SageMakerCluster({written(_on_sagemaker(type_, region))})"
    )


def _way_out(image: str) -> Settings:
    """Return the egress that nodes of an image need to fetch what runs their containers."""
    return {"egress": Egress.NAT} if STARTS_CONTAINERS in node_images()[image].holds else {}


def another_type(kind: type[Cluster], type_: InstanceType, region: str, efa_interfaces: int) -> str:
    """Return, as a hint, the type nearest in size that the kind has an AMI for, with as much EFA."""
    known = [
        each
        for each in instance_types()
        if each.accelerator is None and region in each.regions and fitting_images(kind, each)
    ]
    fitting = [each for each in known if each.efa_interfaces >= efa_interfaces]
    if not fitting:
        return "use a type of x86_64: `slipway instance list` lists them"
    nearest_type = min(fitting, key=lambda each: abs(each.vcpus - type_.vcpus))
    way_out = _way_out(fitting_images(kind, nearest_type)[0])
    return f"use {written({'instance_type': nearest_type.name, **way_out})}"


def _on_sagemaker(type_: InstanceType, region: str) -> Settings:
    """Return its name there, or the most similar type that training jobs may have in the region."""
    own, wanted = type_.name.removeprefix(SAGEMAKER), type_.accelerator
    assert wanted is not None, "a type without accelerators has an image on every kind of cluster"

    def unlike(other: InstanceType) -> tuple[bool, bool, float, int]:
        has = other.accelerator
        assert has is not None, "both have a GPU"
        memory_gib = abs(has.count * has.memory_gib - wanted.count * wanted.memory_gib)
        is_own = other.name == f"{SAGEMAKER}{own}"
        return not is_own, has.name != wanted.name, memory_gib, abs(other.vcpus - type_.vcpus)

    known = _training_types(device_of(type_))
    offered = [each for each in known if not each.regions or region in each.regions]
    found = min(offered or known, key=unlike)
    volume, local = defaults_of(SageMakerCluster)["volume_gb"], found.local_storage_gb
    assert isinstance(volume, int), "volume_gb is a number"
    return {"instance_type": found.name, **({"volume_gb": local} if 0 < local < volume else {})}


@lru_cache(maxsize=4)
def _training_types(device: str) -> tuple[InstanceType, ...]:
    """Return every type with this device that training jobs may have, not only those of `training_types`."""
    return tuple(each for each in map(instance_type, names_like(SAGEMAKER)) if device_of(each) == device)


def known_settings(cluster: NodeCluster, image: str) -> Settings:
    """Return the settings with which the nodes of a cluster boot this image as it is published."""
    own: Settings = {"ami_made_from": None, "ami_adds": ()}
    machine_image = {"machine_image": image} if cluster.machine_image or cluster.ami_parameter is None else {}
    if cluster.ami_parameter is None:
        return {**machine_image, **own}
    architecture = instance_type(cluster.instance_type).architecture
    return {**machine_image, "ami_parameter": node_images()[image].parameters[architecture], **own}


def own_settings(cluster: NodeCluster, image: str) -> Settings:
    """Return the settings with which nodes boot an AMI of the user's own that was made from this image."""
    return {**({"machine_image": image} if cluster.machine_image else {}), "ami_made_from": image}


def changed(cluster: Cluster, settings: Settings) -> str:
    """Write the settings in which the cluster differs."""
    return written({name: value for name, value in settings.items() if getattr(cluster, name) != value})


def written(settings: Settings) -> str:
    """Write settings as in clusters.py."""
    return ", ".join(f"{name}={_in_python(value)}" for name, value in settings.items())


def defaults_of(kind: type[Cluster]) -> Settings:
    return {field.name: field.default for field in fields(kind)}


def _in_python(value: object) -> str:
    if isinstance(value, StrEnum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_in_python, value))}{',' * (len(value) == 1)})"
    return f'"{value}"' if isinstance(value, str) else repr(value)
