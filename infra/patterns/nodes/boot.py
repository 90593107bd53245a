"""The parameters of a node: what the scripts of infra/boot read about its cluster at each boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.infra.declare.types import NodeCluster
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.catalogue.hardware import hardware_of
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type
from slipway.jobs.words.names import (
    CLUSTER_DIMENSION,
    IDLE_METRIC,
    METRIC_NAMESPACE,
    NOT_JOINED_METRIC,
)

SCRATCH = "/scratch"  # on the local disks, lost with the node; infra/boot/scratch.sh makes it
# While a node starts, its job is on its way: for this long the node does not count as idle.
_NOT_IDLE_MINUTES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Names the component that gives a node its jobs; report_idle.sh sees a job by has_<work>."""

    by: str
    work: str


ECS_MEMBERSHIP = Membership(by="ecs-agent", work="task")
MPI_MEMBERSHIP = Membership(by="slipway-node", work="process")
SLURM_MEMBERSHIP = Membership(by="pcs-agent", work="step")
LOGIN_MEMBERSHIP = Membership(by="pcs-agent", work="login")  # it stays, and reports no idleness


def boot_parameters(
    cluster: NodeCluster, files: SharedFiles, membership: Membership, group: str | None = None
) -> dict[str, object]:
    """Return the content of node.json; `group` is the Auto Scaling group that the node may leave."""
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
    if pages := hardware_of(instance_type(cluster.instance_type)).huge_pages:
        parameters["huge_pages"] = pages
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


# What a container needs from its host to use accelerators and EFA.


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerNeeds:
    environment: Mapping[str, str]
    devices: tuple[str, ...]
    gpus: int


def container_needs(type_: InstanceType, efa_interfaces: int) -> ContainerNeeds:
    hardware, accelerator = hardware_of(type_), type_.accelerator
    count = accelerator.count if accelerator else 0
    given = hardware.container_devices
    # One for each interface: with only the first, a container loses bandwidth.
    efa_devices = (f"/dev/infiniband/uverbs{index}" for index in range(efa_interfaces))
    return ContainerNeeds(
        environment={**hardware.container_variables, **(hardware.efa_variables if efa_interfaces else {})},
        devices=(*efa_devices, *(given.format(index) for index in range(count) if given)),
        gpus=count if hardware.counted_as_gpus else 0,
    )
