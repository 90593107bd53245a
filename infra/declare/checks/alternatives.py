"""What a hint about an instance type names: another kind of cluster, or another type, that works."""

from __future__ import annotations

from functools import lru_cache

from slipway.infra.declare.checks.node_images import (
    Settings,
    baked_settings,
    defaults_of,
    fitting_images,
    written,
)
from slipway.infra.declare.types import BatchCluster, Cluster, MpiCluster, SageMakerCluster, SlurmCluster
from slipway.jobs.words.catalogue.instances import (
    SAGEMAKER,
    InstanceType,
    device_of,
    instance_type,
    instance_types,
    names_like,
)
from slipway.jobs.words.images.ami_locks import ARCHITECTURE

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
        return f"use a type of {ARCHITECTURE}: `slipway instances` lists them"
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
