"""What a container needs from its host to use accelerators. A new family is one row of FAMILIES.

Facts about the hardware are in the catalogue; here is what we decide to open and to set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slipway.jobs.words.catalogue.instances import Accelerator, InstanceType, family_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorFamily:
    """Says what a family needs; `devices` and `gpus` take the number of accelerators of a node."""

    environment: Mapping[str, str] = field(default_factory=dict)
    devices: Callable[[int], tuple[str, ...]] = lambda count: ()
    gpus: Callable[[int], int] = lambda count: 0


_CPU_ONLY = AcceleratorFamily()

# Matched against the beginning of the accelerator's name in the catalogue.
FAMILIES: Mapping[str, AcceleratorFamily] = {
    # The Gaudi devices come from habanalabs-container-runtime, which our machine image makes Docker's
    # default runtime, because Batch cannot choose one: HABANA_VISIBLE_DEVICES asks it for them. The
    # vendor's own docker commands run without --privileged this way; through Batch it has not been tried on
    # AWS.
    "Habana": AcceleratorFamily(
        environment={
            "HABANA_VISIBLE_DEVICES": "all",
            "HCCL_SOCKET_IFNAME": "eth0",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        },
    ),
    "Trainium": AcceleratorFamily(
        environment={"CCOM_SOCKET_IFNAME": "eth0"},
        devices=lambda count: tuple(f"/dev/neuron{index}" for index in range(count)),
    ),
    "NVIDIA": AcceleratorFamily(gpus=lambda count: count),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerNeeds:
    environment: Mapping[str, str]
    devices: tuple[str, ...]
    gpus: int


def container_needs(instance_type: InstanceType, efa_interfaces: int) -> ContainerNeeds:
    family, count = _family(instance_type.accelerator)
    known = family_of(instance_type)
    over_efa = known.efa_variables if known and efa_interfaces else {}
    return ContainerNeeds(
        environment={**family.environment, **over_efa},
        devices=(*_efa_devices(efa_interfaces), *family.devices(count)),
        gpus=family.gpus(count),
    )


def _family(accelerator: Accelerator | None) -> tuple[AcceleratorFamily, int]:
    if accelerator is None:
        return _CPU_ONLY, 0
    for prefix, family in FAMILIES.items():
        if accelerator.name.startswith(prefix):
            return family, accelerator.count
    raise AssertionError(f"accelerator {accelerator.name!r} of the catalogue has no row in FAMILIES")


def _efa_devices(count: int) -> tuple[str, ...]:
    """Name one device for each interface: with only the first, a container loses bandwidth."""
    return tuple(f"/dev/infiniband/uverbs{index}" for index in range(count))
