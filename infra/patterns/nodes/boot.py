"""What a node is told at its first boot: the parameters that the scripts of infra/userdata/ read."""

from __future__ import annotations

from enum import StrEnum

from slipway.infra.patterns.observability.idle_metric import (
    CLUSTER_DIMENSION,
    IDLE_METRIC,
    METRIC_NAMESPACE,
    REPORT_EVERY_MINUTES,
)
from slipway.infra.patterns.storage.file_systems import SharedFiles

SCRATCH = "/scratch"  # the local disks, gone with the node


class IdleProbe(StrEnum):
    """Says how report_idle.sh sees that a node has a job; has_<value> is its function for that."""

    TASK = "task"
    PROCESS = "process"


def boot_parameters(
    cluster: str, region: str, files: SharedFiles, work: IdleProbe = IdleProbe.TASK
) -> dict[str, object]:
    parameters: dict[str, object] = {
        "cluster": cluster,
        "region": region,
        "scratch": SCRATCH,
        "idle_report": {
            "namespace": METRIC_NAMESPACE,
            "metric": IDLE_METRIC,
            "dimension": CLUSTER_DIMENSION,
            "every_minutes": REPORT_EVERY_MINUTES,
            "work": work,
        },
    }
    if files.mount_point is not None:
        parameters["files"] = {
            "kind": files.kind.value,
            "id": files.file_system_id,
            "mount_name": files.mount_name,
            "path": files.mount_point,
        }
    return parameters
