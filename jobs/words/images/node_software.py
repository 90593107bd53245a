"""What the AMI of a cluster's nodes must hold, by the kind of the cluster and the accelerators of its type.

A declaration is held to it by the lock of the AMI, and preflight by the manifest of the one that was baked.
Another kind, or another road of accelerators, is a row and a lock that has what it names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from slipway.jobs.words.catalogue.accelerators import family_of
from slipway.jobs.words.catalogue.instances import InstanceType

# The parents, packages and downloads of every lock of a machine image are for these processors.
ARCHITECTURE = "x86_64"

# By the kind of cluster, as locks call it: what a node joins with, and starts ranks with.
SOFTWARE: Mapping[str, tuple[str, ...]] = {
    "batch": ("ecs-agent",),
    "mpi": ("open-mpi",),
    "slurm": ("slurm", "pcs-agent"),
}
_VENDORS_PYTHON = "training-python"  # in which ranks use an accelerator where no container brings one
_RANKS_IN_CONTAINERS = frozenset({"batch"})


def missing_software(kind: str, type_: InstanceType, held: Collection[str]) -> tuple[str, ...]:
    """Name what nodes of this type need in a cluster of this kind, and is not held."""
    needed = SOFTWARE[kind]
    if family := family_of(type_):
        needed = (*needed, family.driver)
        if kind not in _RANKS_IN_CONTAINERS:
            needed = (*needed, _VENDORS_PYTHON)
    return tuple(name for name in needed if name not in held)
