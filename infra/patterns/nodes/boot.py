"""What a node is told of its cluster: the parameters that the scripts of infra/boot read at each boot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slipway.infra.declare.types import NodeCluster
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.catalogue.instances import Accelerator, InstanceType, family_of
from slipway.jobs.words.names import (
    CLUSTER_DIMENSION,
    IDLE_METRIC,
    METRIC_NAMESPACE,
    NOT_JOINED_METRIC,
)

SCRATCH = "/scratch"  # the local disks, gone with the node; infra/boot/scratch.sh makes it
# While a node starts its job is on its way to it: so long it does not count as idle.
_NOT_IDLE_MINUTES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Says what gives a node its jobs, and how report_idle.sh sees that it has one: by has_<work>."""

    by: str
    work: str


ECS_MEMBERSHIP = Membership(by="ecs-agent", work="task")
MPI_MEMBERSHIP = Membership(by="slipway-node", work="process")
SLURM_MEMBERSHIP = Membership(by="pcs-agent", work="step")
LOGIN_MEMBERSHIP = Membership(by="pcs-agent", work="login")  # it stays, and reports no idleness


def boot_parameters(
    cluster: NodeCluster, files: SharedFiles, membership: Membership, group: str | None = None
) -> dict[str, object]:
    """Return what node.json says; `group` is the Auto Scaling group that the node may take itself out of."""
    parameters: dict[str, object] = {
        "cluster": cluster.name,
        "region": cluster.region,
        "idle_report": {
            "namespace": METRIC_NAMESPACE,
            "metric": IDLE_METRIC,
            "dimension": CLUSTER_DIMENSION,
            "after_minutes": _NOT_IDLE_MINUTES,
            "work": membership.work,
        },
        "join": {
            "by": membership.by,
            "within_minutes": cluster.join_minutes,
            "metric": NOT_JOINED_METRIC,
            "group": group,
        },
    }
    if files.mount_point is not None:
        parameters["files"] = mounted(files)
    return parameters


def mounted(files: SharedFiles) -> dict[str, object]:
    """Return what infra/boot/boot.sh reads to mount files at each boot."""
    return {
        "kind": files.kind.value,
        "id": files.file_system_id,
        "mount_name": files.mount_name,
        "path": files.mount_point,
    }


# What a container needs from its host to use accelerators. A new family is one row of FAMILIES.
# Facts about the hardware are in the catalogue; here is what we decide to open and to set.


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
