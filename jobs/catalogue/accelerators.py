"""What recipes and launchers call the accelerators of the catalogue. A new family is one row of FAMILIES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.jobs.catalogue.instances import InstanceType


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    device: str  # in a recipe's ACCELERATORS
    files: str  # in ACCELERATOR_FILES of containers/runtime/contract/settings.py, which counts them in /dev


CPU = "cpu"

# By the first word of the accelerator's name in the catalogue.
FAMILIES: Mapping[str, Family] = {
    "Habana": Family(device="gaudi", files="habana"),
    "NVIDIA": Family(device="cuda", files="nvidia"),
    "Trainium1": Family(device="neuron", files="neuron"),
    "Trainium2": Family(device="neuron", files="neuron"),
}


def family_of(instance_type: InstanceType) -> Family | None:
    """Return the family of the type's accelerator; None if it has no accelerator."""
    if instance_type.accelerator is None:
        return None
    maker = instance_type.accelerator.name.split()[0]
    assert maker in FAMILIES, (
        f"jobs/catalogue/accelerators.py has no row for {instance_type.accelerator.name}"
    )
    return FAMILIES[maker]


def device_of(instance_type: InstanceType) -> str:
    """Name what the processes on a node of this type train on, in the recipes' words."""
    family = family_of(instance_type)
    return family.device if family else CPU
