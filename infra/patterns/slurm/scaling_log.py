"""What AWS PCS says of each machine that it starts, or cannot start: the only place where it says so.

There is no event of it. The log is delivered only where somebody asks for it (AWS PCS user guide, "Scaling
logs in AWS PCS"); a filter counts what keeps a job waiting, and the cluster's alarm mails that.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_logs as logs
from constructs import Construct

from slipway.infra.patterns.observability.launch_failures import LAUNCH_FAILURES, launch_namespace
from slipway.infra.patterns.slurm.scheduler import Scheduler
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup
from slipway.jobs.words.names import derived_name

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
