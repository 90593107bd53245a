"""What nodes must be able to do: their type, the software of their AMI, and of the container over it.

SOFTWARE of jobs/words/images/ami_locks.py is the table of what an AMI must hold. Each hint names settings
with which the cluster is sound, as a test sees that follows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from slipway.infra.declare.machine_images import CONTAINERS
from slipway.infra.declare.types import (
    BatchCluster,
    Cluster,
    FileSystem,
    Mpi,
    MpiCluster,
    NodeCluster,
    SageMakerCluster,
    SlurmCluster,
)
from slipway.jobs.words.catalogue.instances import (
    SAGEMAKER,
    InstanceType,
    device_of,
    family_of,
    instance_type,
    instance_types,
    names_like,
)
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.ami_locks import ARCHITECTURE, machine_image_names, missing_software
from slipway.jobs.words.images.amis import ami_parameter, image_of
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


# What a hint about an instance type names: another kind of cluster, or another type, that works.
_KINDS: tuple[type[Cluster], ...] = (BatchCluster, MpiCluster, SlurmCluster)


def another_kind(kind: type[Cluster], type_: InstanceType, region: str) -> str:
    """Name the kinds of cluster that drive the type's accelerators, with the settings that differ."""
    found = [_declaration(each, type_) for each in _KINDS if each is not kind and fitting_images(each, type_)]
    if found:
        return f"use {' or '.join(found)}"
    return f"GPUs run on SageMaker today: use SageMakerCluster({written(_on_sagemaker(type_, region))})"


def another_type(type_: InstanceType, region: str, efa_interfaces: int) -> str:
    """Name the type nearest in size that the images are for, and that has as much EFA."""
    known = [
        each
        for each in instance_types()
        if each.architecture == ARCHITECTURE and each.accelerator is None and region in each.regions
    ]
    fitting = [each for each in known if each.efa_interfaces >= efa_interfaces]
    if not fitting:
        return f"use a type of {ARCHITECTURE}: `slipway instance list` lists them"
    nearest = min(fitting, key=lambda each: abs(each.vcpus - type_.vcpus))
    return f"use {written({'instance_type': nearest.name})}"


def _declaration(kind: type[Cluster], type_: InstanceType) -> str:
    defaults, settings = defaults_of(kind), baked_settings(kind, fitting_images(kind, type_)[0])
    differing = {name: value for name, value in settings.items() if value != defaults[name]}
    return f"{kind.__name__}({written({'instance_type': type_.name, **differing})})"


def _on_sagemaker(type_: InstanceType, region: str) -> Settings:
    """Name the type there, or the one most like it that training jobs may have in the region."""
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


# Which machine image the nodes of a cluster boot, which ones would fit, and the settings that say so.
Settings = Mapping[str, object]


def image_of_nodes(cluster: NodeCluster) -> str | None:
    """Name the image of ours that nodes boot, or their AMI was made from; None where settings disagree."""
    declared, found = getattr(cluster, "machine_image", None), booted_image(cluster)
    return found if found in known_images() and declared in (None, found) else None


def booted_image(cluster: NodeCluster) -> str | None:
    """Name what the settings of the AMI name, known or not."""
    named = image_of(cluster.ami_parameter)
    return named if named in known_images() else cluster.ami_made_from


def known_images() -> tuple[str, ...]:
    return tuple(_locked(CONTAINERS))


def locked_software(image: str) -> Mapping[str, str]:
    """Return what the lock says that the AMI holds."""
    return _locked(CONTAINERS)[image]


def fitting_images(kind: type[Cluster], type_: InstanceType) -> tuple[str, ...]:
    """Name the machine images that drive the type in a cluster of this kind, the kind's own choice first."""
    locked = _locked(CONTAINERS)
    fitting = [name for name, held in locked.items() if not missing_software(kind.kind, type_, held)]
    defaults = defaults_of(kind)
    usual = defaults.get("machine_image") or image_of(str(defaults.get("ami_parameter")))
    return tuple(sorted(fitting, key=lambda name: name != usual))


def baked_settings(kind: type[Cluster], image: str) -> Settings:
    """Return the settings with which nodes boot this machine image as Slipway bakes it."""
    settings: Settings = {
        "machine_image": image,
        "ami_parameter": ami_parameter(image),
        "ami_made_from": None,
        "ami_adds": (),
    }
    return {name: value for name, value in settings.items() if name in defaults_of(kind)}


def own_settings(kind: type[Cluster], image: str) -> Settings:
    """Return the settings with which nodes boot an AMI of the user's own that was made from this image."""
    settings: Settings = {"machine_image": image, "ami_made_from": image}
    return {name: value for name, value in settings.items() if name in defaults_of(kind)}


def changed(cluster: Cluster, settings: Settings) -> str:
    """Write those of the settings that the cluster has not."""
    return written({name: value for name, value in settings.items() if getattr(cluster, name) != value})


def written(settings: Settings) -> str:
    """Write settings as clusters.py has them."""
    return ", ".join(f"{name}={_in_python(value)}" for name, value in settings.items())


def defaults_of(kind: type[Cluster]) -> Settings:
    return {field.name: field.default for field in fields(kind)}


@lru_cache(maxsize=4)
def _locked(containers: Path) -> Mapping[str, Mapping[str, str]]:
    locks = {name: read_lock(containers, name) for name in machine_image_names(containers)}
    return {name: lock.host for name, lock in locks.items() if lock is not None}


def _in_python(value: object) -> str:
    if isinstance(value, StrEnum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_in_python, value))}{',' * (len(value) == 1)})"
    return f'"{value}"' if isinstance(value, str) else repr(value)
