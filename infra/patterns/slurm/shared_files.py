"""What the machines of a Slurm cluster share: a home for all, and a scratch where one is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_logs as logs
from constructs import Construct

from slipway.infra.declare.types import SlurmCluster
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.network.security_groups import MountRules, MountRulesProps
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.nodes.boot import mounted
from slipway.infra.patterns.nodes.network_interfaces import node_security_group
from slipway.infra.patterns.observability.alarms import LAUNCH_FAILURES, launch_namespace
from slipway.infra.patterns.slurm.node_groups import Scheduler
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.names import derived_name


def slurm_security_group(
    scope: Construct,
    cluster: SlurmCluster,
    *,
    network: ClusterNetwork,
    home: SharedFiles,
    scratch: SharedFiles | None,
) -> str:
    """Make the group of nodes and controller: AWS PCS wants its own interface to reach them, and they it."""
    group = node_security_group(scope, cluster, network=network, files=home)
    if scratch is not None:
        MountRules(
            scope,
            "ScratchRules",
            props=MountRulesProps(
                node_group_id=group,
                file_system_group_id=scratch.security_group_id,
                ports=scratch.ports,
                calls_back=scratch.calls_back,
            ),
        )
    return group


def scratch_mount(scratch: SharedFiles | None) -> str | None:
    return scratch.mount_point if scratch else None


def scratch_parameters(scratch: SharedFiles | None) -> Mapping[str, object]:
    """Return what a first boot reads of the scratch."""
    mount = {"scratch_mount": scratch_mount(scratch)}
    return {"scratch_files": mounted(scratch), **mount} if scratch else mount


# What AWS PCS says of each machine that it starts, or cannot start: the only place where it says so.
# There is no event of it. The log is delivered only where somebody asks for it (AWS PCS user guide, "Scaling
# logs in AWS PCS"); a filter counts what keeps a job waiting, and the cluster's alarm mails that.
_FAILED = (
    '{ $.status_code = "LAUNCH_FAILED" || $.status_code = "TERMINATE_FAILED" || '
    '$.reason_code = "BOOTSTRAP_FAILED" }'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLogProps:
    cluster: str
    scheduler: Scheduler
    log_group: EncryptedLogGroup


class ScalingLog(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ScalingLogProps) -> None:
        super().__init__(scope, id)
        name = derived_name("log-delivery", f"slipway-{props.cluster}-scaling")
        source = logs.CfnDeliverySource(
            self, "Source", name=name, resource_arn=props.scheduler.arn, log_type="PCS_SCALING_LOGS"
        )
        destination = logs.CfnDeliveryDestination(
            self, "Destination", name=name, destination_resource_arn=props.log_group.arn
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
            log_group_name=props.log_group.name,
            filter_pattern=_FAILED,
            metric_transformations=[
                logs.CfnMetricFilter.MetricTransformationProperty(
                    metric_namespace=launch_namespace(props.cluster),
                    metric_name=LAUNCH_FAILURES,
                    metric_value="1",
                )
            ],
        )
