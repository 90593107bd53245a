"""What a Slurm cluster's machines share: a home for all, and a scratch if declared; and PCS's log of them."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_logs as logs
from constructs import Construct

from slipway.infra.declare.types import SlurmCluster
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.foundation import Foundation
from slipway.infra.patterns.nodes.boot import mounted
from slipway.infra.patterns.nodes.network_interfaces import node_security_group
from slipway.infra.patterns.observability.alarms import LAUNCH_FAILURES, launch_namespace
from slipway.infra.patterns.slurm.node_groups import Scheduler
from slipway.infra.patterns.storage.file_systems import MountRules, SharedFiles
from slipway.jobs.words.names import derived_name


def slurm_security_group(
    scope: Construct, cluster: SlurmCluster, base: Foundation, scratch: SharedFiles | None
) -> str:
    """Make the group of nodes and controller: AWS PCS's own interface and they must reach each other."""
    group = node_security_group(scope, cluster, base)
    if scratch is not None:
        MountRules(scope, "ScratchRules", nodes=group, files=scratch)
    return group


def scratch_mount(scratch: SharedFiles | None) -> str | None:
    return scratch.mount_point if scratch else None


def scratch_parameters(scratch: SharedFiles | None) -> Mapping[str, object]:
    """Return what a first boot reads of the scratch."""
    mount = {"scratch_mount": scratch_mount(scratch)}
    return {"scratch_files": mounted(scratch), **mount} if scratch else mount


# AWS PCS's log of each machine that it starts, or cannot start: the only place that says so, as there is no
# event. It is delivered only on request (AWS PCS user guide, "Scaling logs in AWS PCS"); a filter counts
# failures for which a job waits, and the cluster's alarm mails that.
_FAILED = (
    '{ $.status_code = "LAUNCH_FAILED" || $.status_code = "TERMINATE_FAILED" || '
    '$.reason_code = "BOOTSTRAP_FAILED" }'
)


class ScalingLog(Construct):
    def __init__(
        self, scope: Construct, id: str, *, cluster: str, scheduler: Scheduler, log_group: EncryptedLogGroup
    ) -> None:
        super().__init__(scope, id)
        name = derived_name("log-delivery", f"slipway-{cluster}-scaling")
        source = logs.CfnDeliverySource(
            self, "Source", name=name, resource_arn=scheduler.arn, log_type="PCS_SCALING_LOGS"
        )
        destination = logs.CfnDeliveryDestination(
            self, "Destination", name=name, destination_resource_arn=log_group.arn
        )
        logs.CfnDelivery(
            self,
            "Delivery",
            delivery_source_name=source.ref,
            delivery_destination_arn=destination.attr_arn,
        )
        logs.CfnMetricFilter(
            self,
            "Failures",
            log_group_name=log_group.name,
            filter_pattern=_FAILED,
            metric_transformations=[
                logs.CfnMetricFilter.MetricTransformationProperty(
                    metric_namespace=launch_namespace(cluster),
                    metric_name=LAUNCH_FAILURES,
                    metric_value="1",
                )
            ],
        )
