"""Which machine image the nodes of a cluster boot, which ones would fit, and the settings that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.jobs.words.catalogue.instances import InstanceType
from slipway.jobs.words.images.ami_locks import machine_image_names, missing_software
from slipway.jobs.words.images.amis import ami_parameter, image_of
from slipway.jobs.words.images.containers import read_lock

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
