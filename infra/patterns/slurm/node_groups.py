"""The machines of a Slurm cluster: workers that start with a job and end after it, and one login node.

Also their controller, its queue, and AWS PCS's log of machines that it cannot start.

A changed template or image reaches machines as AWS PCS starts them: it drains running ones, and replaces each
after its job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from aws_cdk import aws_logs as logs
from aws_cdk import aws_pcs as pcs
from constructs import Construct

from slipway.infra.declare.node_images import ami_parameter_of, login_type_of, node_image_of, slurm_release
from slipway.infra.declare.types import Market, SlurmCluster
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.foundation import Foundation
from slipway.infra.patterns.nodes.boot import LOGIN_MEMBERSHIP, SLURM_MEMBERSHIP, Membership, mounted
from slipway.infra.patterns.nodes.launch_template import NodeTemplate
from slipway.infra.patterns.nodes.network_interfaces import node_security_group
from slipway.infra.patterns.observability.alarms import LAUNCH_FAILURES, launch_namespace
from slipway.infra.patterns.slurm.slurm_access import MachineRole
from slipway.infra.patterns.storage.file_systems import MountRules, SharedFiles
from slipway.jobs.words.catalogue.hardware import gres_of, hardware_of
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type
from slipway.jobs.words.names import controller_name, derived_name
from slipway.jobs.words.slurm import EPILOG, LOGIN_NODES, PROLOG, QUEUE, smallest_controller

_Group = pcs.CfnComputeNodeGroup
_PURCHASES = {Market.CAPACITY_BLOCK: "CAPACITY_BLOCK", Market.SPOT: "SPOT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Describes one group of machines: its declaration, their number, and their role in AWS."""

    name: str
    cluster: SlurmCluster  # the login node's differs in type and market
    fewest: int
    most: int
    membership: Membership
    role: MachineRole
    placement_group: str | None = None


def login_node(cluster: SlurmCluster, role: MachineRole) -> Machines:
    """Describe the one machine that stays: small, bought on demand, without EFA."""
    machine = replace(
        cluster,
        instance_type=login_type_of(cluster),
        machine_image=node_image_of(cluster).name,  # the workers' own
        ami_parameter=ami_parameter_of(cluster),
        efa_interfaces=0,
        market=Market.ON_DEMAND,
        reservation_id=None,
    )
    return Machines(
        name="login",
        cluster=machine,
        fewest=LOGIN_NODES,
        most=LOGIN_NODES,
        membership=LOGIN_MEMBERSHIP,
        role=role,
    )


def workers(cluster: SlurmCluster, role: MachineRole, placement_group: str | None) -> Machines:
    """Describe the machines that start with a job and end after it."""
    return Machines(
        name="workers",
        cluster=cluster,
        fewest=0,
        most=cluster.max_nodes,
        membership=SLURM_MEMBERSHIP,
        role=role,
        placement_group=placement_group,
    )


class SlurmNodeGroup(Construct):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        machines: Machines,
        scheduler: Scheduler,
        template: NodeTemplate,
        image_id: str,
    ) -> None:
        super().__init__(scope, id)
        type_ = instance_type(machines.cluster.instance_type)
        self.resource = _Group(
            self,
            "Resource",
            cluster_id=scheduler.id,
            name=machines.name,
            ami_id=image_id,
            subnet_ids=[scheduler.subnet_id],
            purchase_option=_PURCHASES.get(machines.cluster.market, "ONDEMAND"),
            instance_configs=[_Group.InstanceConfigProperty(instance_type=type_.name)],
            scaling_configuration=_Group.ScalingConfigurationProperty(
                min_instance_count=machines.fewest, max_instance_count=machines.most
            ),
            custom_launch_template=_Group.CustomLaunchTemplateProperty(
                template_id=template.resource.ref, version=template.version
            ),
            iam_instance_profile_arn=machines.role.profile_arn,
            slurm_configuration=_devices(type_),
        )
        self.resource.node.add_dependency(machines.role.role.policy)

    @property
    def id(self) -> str:
        return self.resource.attr_id


def _devices(type_: InstanceType) -> _Group.SlurmConfigurationProperty | None:
    """Tell Slurm how many accelerators a node has; AWS PCS needs it in both of Slurm's files.

    For GPUs it writes both itself, with the devices' files (AWS PCS user guide, "Configuring custom GRES
    settings"). Others are declared by number and not by file: the prolog looks whether they exist, and drains
    a node that lacks one with that reason.
    """
    gres = gres_of(type_)
    if not gres or hardware_of(type_).counted_as_gpus:
        return None
    name, _, count = gres.partition(":")
    return _Group.SlurmConfigurationProperty(
        gres_custom_settings=[{"Name": name, "Count": count}],
        slurm_custom_settings=[
            _Group.SlurmCustomSettingProperty(parameter_name="Gres", parameter_value=gres)
        ],
    )


# What the machines share besides their home: their security group, and a scratch if one is declared.


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


# The managed controller of Slurm, and the queue that takes its jobs. Its name is fixed, so CloudFormation
# refuses every change that would replace it, such as another size or subnet: the jobs of a replaced
# controller would be lost. `slipway preflight` reports it before a deployment.

# AWS PCS user guide, "Custom Slurm settings for AWS PCS clusters", lists the allowed ones. slurmd runs the
# prolog on every node that a job gets, before any step: if it fails, its node is drained and the job
# requeued.
_SETTINGS: Mapping[str, str] = {
    # Our jobs are recognised by their comments, which accounts do not keep by default.
    "AccountingStoreFlags": "job_comment",
    "Epilog": EPILOG,
    "JobRequeue": "1",
    "Prolog": PROLOG,
    "PrologFlags": "Alloc",
    # Otherwise the job is requeued and held, until somebody releases it.
    "SchedulerParameters": "nohold_on_prolog_fail",
}


class Scheduler(Construct):
    def __init__(
        self, scope: Construct, id: str, *, cluster: SlurmCluster, subnet_id: str, security_group_id: str
    ) -> None:
        super().__init__(scope, id)
        self.subnet_id = subnet_id  # of its machines, too
        size = cluster.controller or smallest_controller(cluster.max_nodes)
        self.resource = pcs.CfnCluster(
            self,
            "Resource",
            name=controller_name(cluster.name),
            size=size.upper(),
            scheduler=pcs.CfnCluster.SchedulerProperty(type="SLURM", version=slurm_release(cluster)),
            networking=pcs.CfnCluster.NetworkingProperty(
                subnet_ids=[subnet_id], security_group_ids=[security_group_id]
            ),
            slurm_configuration=pcs.CfnCluster.SlurmConfigurationProperty(
                scale_down_idle_time_in_seconds=cluster.idle_minutes * 60,
                # Once on it cannot be turned off; records of jobs are kept as long as their logs.
                accounting=pcs.CfnCluster.AccountingProperty(
                    mode="STANDARD", default_purge_time_in_days=cluster.log_retention_days
                ),
                slurm_rest=pcs.CfnCluster.SlurmRestProperty(mode="STANDARD") if cluster.rest_api else None,
                slurm_custom_settings=[
                    pcs.CfnCluster.SlurmCustomSettingProperty(parameter_name=name, parameter_value=value)
                    for name, value in _SETTINGS.items()
                ],
            ),
        )

    @property
    def id(self) -> str:
        return self.resource.attr_id

    @property
    def arn(self) -> str:
        return self.resource.attr_arn


def add_queue(scope: Construct, cluster: SlurmCluster, scheduler: Scheduler, workers: str) -> pcs.CfnQueue:
    """Give the cluster its one queue: a job has its nodes to itself, and none outlives the declared hours."""
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
                pcs.CfnQueue.SlurmCustomSettingProperty(parameter_name=name, parameter_value=value)
                for name, value in custom.items()
            ]
        ),
    )


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
