"""The managed controller of Slurm, and the queue that takes its jobs.

Its name is fixed, so CloudFormation refuses what would replace it, such as another size or subnet: the jobs
of a replaced controller would be gone. `slipway preflight` says so before a deployment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import aws_pcs as pcs
from constructs import Construct

from slipway.infra.declare.types import SlurmCluster
from slipway.jobs.words.names import controller_name
from slipway.jobs.words.slurm import EPILOG, PROLOG, QUEUE, smallest_controller

_Slurm = pcs.CfnCluster.SlurmConfigurationProperty
_Custom = pcs.CfnCluster.SlurmCustomSettingProperty
_QueueCustom = pcs.CfnQueue.SlurmCustomSettingProperty

# AWS PCS user guide, "Custom Slurm settings for AWS PCS clusters", lists what it takes. slurmd runs the
# prolog on every node that a job gets, before any step: one that fails drains its node and puts the job back.
_SETTINGS: Mapping[str, str] = {
    "Epilog": EPILOG,
    "JobRequeue": "1",
    "Prolog": PROLOG,
    "PrologFlags": "Alloc",
    # Otherwise the job is put back and held, until somebody releases it.
    "SchedulerParameters": "nohold_on_prolog_fail",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerProps:
    cluster: SlurmCluster
    release: str  # of Slurm, such as 25.05
    subnet_id: str
    security_group_id: str


class Scheduler(Construct):
    def __init__(self, scope: Construct, id: str, *, props: SchedulerProps) -> None:
        super().__init__(scope, id)
        cluster = props.cluster
        size = cluster.controller or smallest_controller(cluster.max_nodes)
        self.resource = pcs.CfnCluster(
            self,
            "Resource",
            name=controller_name(cluster.name),
            size=size.upper(),
            scheduler=pcs.CfnCluster.SchedulerProperty(type="SLURM", version=props.release),
            networking=pcs.CfnCluster.NetworkingProperty(
                subnet_ids=[props.subnet_id], security_group_ids=[props.security_group_id]
            ),
            slurm_configuration=_slurm(cluster),
        )

    @property
    def id(self) -> str:
        return self.resource.attr_id

    @property
    def arn(self) -> str:
        return self.resource.attr_arn


def add_queue(scope: Construct, cluster: SlurmCluster, scheduler: Scheduler, workers: str) -> pcs.CfnQueue:
    """Give the cluster its one queue: a node is a job's alone, and no job outlives the declared hours."""
    minutes = cluster.job_timeout // timedelta(minutes=1)
    custom = {"Default": "YES", "MaxTime": str(minutes), "OverSubscribe": "EXCLUSIVE"}
    return pcs.CfnQueue(
        scope,
        "Queue",
        cluster_id=scheduler.id,
        name=QUEUE,
        compute_node_group_configurations=[
            pcs.CfnQueue.ComputeNodeGroupConfigurationProperty(compute_node_group_id=workers)
        ],
        slurm_configuration=pcs.CfnQueue.SlurmConfigurationProperty(
            slurm_custom_settings=[
                _QueueCustom(parameter_name=name, parameter_value=value) for name, value in custom.items()
            ]
        ),
    )


def _slurm(cluster: SlurmCluster) -> _Slurm:
    return _Slurm(
        scale_down_idle_time_in_seconds=cluster.idle_minutes * 60,
        # Once on it cannot be turned off; what a job was stays as long as its logs.
        accounting=pcs.CfnCluster.AccountingProperty(
            mode="STANDARD", default_purge_time_in_days=cluster.log_retention_days
        ),
        slurm_rest=pcs.CfnCluster.SlurmRestProperty(mode="STANDARD") if cluster.rest_api else None,
        slurm_custom_settings=[
            _Custom(parameter_name=name, parameter_value=value) for name, value in _SETTINGS.items()
        ],
    )
