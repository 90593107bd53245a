"""Names what users import: `from slipway.infra import add_cluster`. A new name is a row of _HOMES."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway.infra.adding import AddedCluster, add_cluster
    from slipway.infra.declare.machine_images import MachineImage
    from slipway.infra.declare.types import (
        BatchCluster,
        Egress,
        FileSystem,
        Market,
        Mpi,
        MpiCluster,
        SageMakerCluster,
        SlurmCluster,
    )
    from slipway.infra.refused_cluster import RefusedCluster

_TYPES = "slipway.infra.declare.types"
_ADDING = "slipway.infra.adding"
# Imported on first use, so that importing a pattern reads no catalogue, and a clusters.py no CDK.
_HOMES = {
    "AddedCluster": _ADDING,
    "BatchCluster": _TYPES,
    "Egress": _TYPES,
    "FileSystem": _TYPES,
    "MachineImage": "slipway.infra.declare.machine_images",
    "Market": _TYPES,
    "Mpi": _TYPES,
    "MpiCluster": _TYPES,
    "RefusedCluster": "slipway.infra.refused_cluster",
    "SageMakerCluster": _TYPES,
    "SlurmCluster": _TYPES,
    "add_cluster": _ADDING,
}
__all__ = [
    "AddedCluster",
    "BatchCluster",
    "Egress",
    "FileSystem",
    "MachineImage",
    "Market",
    "Mpi",
    "MpiCluster",
    "RefusedCluster",
    "SageMakerCluster",
    "SlurmCluster",
    "add_cluster",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
