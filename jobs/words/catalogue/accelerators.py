"""What recipes, launchers and images call the catalogue's accelerators, and what these want to be told.

A new family is one row of FAMILIES.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slipway.jobs.words.catalogue.instances import InstanceType


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    device: str  # in a recipe's ACCELERATORS
    files: str  # in ACCELERATOR_FILES of containers/runtime/contract/settings.py, which counts them in /dev
    driver: str  # as the lock of an image that holds it calls it
    efa_variables: Mapping[str, str] = field(default_factory=dict)  # of every rank where nodes have EFA
    huge_pages: int = 0  # of 2 MiB, that the image of a node reserves
    ranks_per_device: int = 1


CPU = "cpu"

# They run models, or our images lack their software: nothing of ours trains on them.
UNUSABLE: Mapping[str, str] = {
    "AMD": "radeon",
    "Inferentia": "inferentia",
    "Inferentia2": "inferentia2",
    "Qualcomm": "ai100",
}

# By the first word of the accelerator's name in the catalogue.
FAMILIES: Mapping[str, Family] = {
    "Habana": Family(
        device="gaudi",
        files="habana",
        driver="synapseai",
        # Gaudi Direct: the network card reads the accelerator's memory. HCCL_OVER_OFI=1 would switch that off
        # (Intel Gaudi documentation, "Scale-out via host NICs"), so it is not set.
        efa_variables={"RDMAV_FORK_SAFE": "1", "FI_EFA_USE_DEVICE_RDMA": "1"},
        huge_pages=15_000,  # the same, "Bare metal installation"
    ),
    # libfabric and the NCCL plug-in choose by themselves; settings from older guides only slow them down.
    "NVIDIA": Family(device="cuda", files="nvidia", driver="nvidia-driver"),
    "Trainium1": Family(
        device="neuron",
        files="neuron",
        driver="neuron-driver",
        efa_variables={"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"},
        ranks_per_device=2,  # NeuronCores
    ),
    "Trainium2": Family(
        device="neuron",
        files="neuron",
        driver="neuron-driver",
        efa_variables={"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"},
        ranks_per_device=2,  # NeuronCores
    ),
}


def family_of(instance_type: InstanceType) -> Family | None:
    """Return the family of the type's accelerator; None if it has none, or one that nothing trains on."""
    if instance_type.accelerator is None or unusable(instance_type):
        return None
    maker = instance_type.accelerator.name.split()[0]
    assert maker in FAMILIES, (
        f"jobs/words/catalogue/accelerators.py has no row for {instance_type.accelerator.name}"
    )
    return FAMILIES[maker]


def unusable(instance_type: InstanceType) -> str:
    """Return what the recipes would call accelerators that nothing of ours trains on; else nothing."""
    accelerator = instance_type.accelerator
    return UNUSABLE.get(accelerator.name.split()[0], "") if accelerator else ""


def device_of(instance_type: InstanceType) -> str:
    """Name what the processes on a node of this type train on, in the recipes' words."""
    family = family_of(instance_type)
    return family.device if family else unusable(instance_type) or CPU
