"""Which platform a target belongs to. A new kind of target is a folder like the others, and a row here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TypeVar, cast

from slipway.jobs.platforms.platform import (
    HasArrays,
    HasDependencies,
    HasImages,
    HasNodes,
    MayHaveTwins,
    MayMissMachines,
    Platform,
)
from slipway.jobs.platforms.prepared import Request
from slipway.jobs.words.targets import Target

T = TypeVar("T", bound=Target)

PLATFORMS: Mapping[str, str] = {
    "batch": "slipway.jobs.platforms.batch.platform",
    "mpi": "slipway.jobs.platforms.mpi.platform",
    "sagemaker": "slipway.jobs.platforms.sagemaker.platform",
    "slurm": "slipway.jobs.platforms.slurm.platform",
}


def platform_of(target: T) -> Platform[T, Request]:
    return cast("Platform[T, Request]", _module_of(target))


def nodes_of(target: T) -> HasNodes[T] | None:
    """Return what lists its machines; None where machines start with a job."""
    platform = _module_of(target)
    return platform if isinstance(platform, HasNodes) else None


def missing_machines_of(target: Target) -> Sequence[tuple[str, str]]:
    """Tell of machines that AWS does not start, each with what to do; nothing of those that a job brings."""
    platform = _module_of(target)
    return platform.missing_machines(target) if isinstance(platform, MayMissMachines) else ()


def waiting_of(target: T) -> HasDependencies[T] | None:
    """Return what knows which job waits for which; None where no job can wait for another."""
    platform = _module_of(target)
    return platform if isinstance(platform, HasDependencies) else None


def takes_arrays(target: Target) -> bool:
    """Return True where one submission may be an array of jobs."""
    return isinstance(_module_of(target), HasArrays)


def takes_images(target: Target) -> bool:
    """Return True where a job may run in a container image of its own."""
    return isinstance(_module_of(target), HasImages)


def twins_of(target: T) -> MayHaveTwins[T] | None:
    """Return what ends twins; None where the platform takes a name only once."""
    platform = _module_of(target)
    return platform if isinstance(platform, MayHaveTwins) else None


def _module_of(target: Target) -> ModuleType:
    return import_module(PLATFORMS[target.kind])
