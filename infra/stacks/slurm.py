"""A Slurm cluster on AWS PCS: its controller, its login node, its workers, and how jobs reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.node_images import ami_parameter_of, login_type_of, node_image_of, slurm_release
from slipway.infra.declare.types import Egress, Market, NodeCluster, SlurmCluster
from slipway.infra.patterns.access.target_record import TargetRecord, TargetRecordProps
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.nodes.boot import (
    LOGIN_MEMBERSHIP,
    SLURM_MEMBERSHIP,
    Membership,
    boot_parameters,
)
from slipway.infra.patterns.nodes.launch_template import (
    FleetMachine,
    NodeTemplate,
    NodeTemplateProps,
    node_image_id,
)
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count
from slipway.infra.patterns.slurm.node_groups import (
    Scheduler,
    SchedulerProps,
    SlurmNodeGroup,
    SlurmNodeGroupProps,
    add_queue,
    cluster_placement_group,
)
from slipway.infra.patterns.slurm.shared_files import (
    ScalingLog,
    ScalingLogProps,
    scratch_mount,
    scratch_parameters,
    slurm_security_group,
)
from slipway.infra.patterns.slurm.slurm_access import (
    MachineRole,
    RunDocument,
    RunDocumentProps,
    SlurmAccess,
    SlurmAccessProps,
    run_document_name,
)
from slipway.infra.patterns.statements import ACCOUNT_ID
from slipway.infra.patterns.storage.buckets import ClusterStorage
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.slurm import LOGIN_NODES, QUEUE
from slipway.jobs.words.targets import SlurmTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmStackProps:
    cluster: SlurmCluster
    network: ClusterNetwork
    storage: ClusterStorage
    scratch: SharedFiles | None
    job_logs: EncryptedLogGroup
    scaling_logs: EncryptedLogGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machines:
    """Says what one group of machines is: its declaration, how many, and who they are in AWS."""

    id: str
    name: str
    cluster: NodeCluster
    fewest: int
    most: int
    membership: Membership
    role: MachineRole
    placement_group: str | None = None


class SlurmStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: SlurmStackProps) -> None:
        cluster = props.cluster
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self._props = props
        self._image_id = node_image_id(self, ami_parameter_of(cluster))
        self.security_group_id = slurm_security_group(
            self, cluster, network=props.network, home=props.storage.files, scratch=props.scratch
        )
        self._scheduler = _scheduler(self, props, self.security_group_id)
        access = SlurmAccess(
            self,
            "Access",
            props=SlurmAccessProps(storage=props.storage, log_group_arn=props.job_logs.arn),
        )
        self.job_role: iam.IRole = access.worker.role.role
        login = self._add(_login_node(cluster, access.login))
        workers = self._add(_workers(cluster, access.worker, cluster_placement_group(self, cluster)))
        add_queue(self, cluster, self._scheduler, workers.id)
        RunDocument(self, "RunDocument", props=RunDocumentProps(cluster=cluster))
        ScalingLog(
            self,
            "ScalingLog",
            props=ScalingLogProps(
                cluster=cluster.name, scheduler=self._scheduler, log_group=props.scaling_logs
            ),
        )
        target = _target(self, props, self._scheduler, login, workers)
        TargetRecord(self, "Target", props=TargetRecordProps(target=target))

    def _add(self, machines: _Machines) -> SlurmNodeGroup:
        template = NodeTemplate(
            self,
            f"{machines.id}Template",
            props=NodeTemplateProps(
                cluster=machines.cluster,
                security_group_id=self.security_group_id,
                boot_parameters=_boot_parameters(self._props, machines),
                fleet=FleetMachine(
                    name=f"{machines.cluster.name}-{machines.name}", placement_group=machines.placement_group
                ),
            ),
        )
        return SlurmNodeGroup(
            self,
            machines.id,
            props=SlurmNodeGroupProps(
                name=machines.name,
                cluster=machines.cluster,
                fewest=machines.fewest,
                most=machines.most,
                image_id=self._image_id,
                subnet_id=self._props.network.vpc.private_subnet_id,
                scheduler=self._scheduler,
                template=template,
                machine=machines.role,
            ),
        )


def _scheduler(stack: SlurmStack, props: SlurmStackProps, security_group_id: str) -> Scheduler:
    return Scheduler(
        stack,
        "Scheduler",
        props=SchedulerProps(
            cluster=props.cluster,
            release=slurm_release(props.cluster),
            subnet_id=props.network.vpc.private_subnet_id,
            security_group_id=security_group_id,
        ),
    )


def _login_node(cluster: SlurmCluster, role: MachineRole) -> _Machines:
    """Describe the one machine that stays: small, bought as needed, without EFA."""
    machine = replace(
        cluster,
        instance_type=login_type_of(cluster),
        machine_image=node_image_of(cluster).name,  # the workers' own
        ami_parameter=ami_parameter_of(cluster),
        efa_interfaces=0,
        market=Market.ON_DEMAND,
        reservation_id=None,
    )
    return _Machines(
        id="LoginNode",
        name="login",
        cluster=machine,
        fewest=LOGIN_NODES,
        most=LOGIN_NODES,
        membership=LOGIN_MEMBERSHIP,
        role=role,
    )


def _workers(cluster: SlurmCluster, role: MachineRole, placement_group: str | None) -> _Machines:
    return _Machines(
        id="Workers",
        name="workers",
        cluster=cluster,
        fewest=0,
        most=cluster.max_nodes,
        membership=SLURM_MEMBERSHIP,
        role=role,
        placement_group=placement_group,
    )


def _boot_parameters(props: SlurmStackProps, machines: _Machines) -> Mapping[str, object]:
    """Return what a first boot reads, and what the prolog looks for on a worker."""
    type_ = instance_type(machines.cluster.instance_type)
    return {
        **boot_parameters(machines.cluster, props.storage.files, machines.membership),
        **scratch_parameters(props.scratch),
        "account": ACCOUNT_ID,
        "bucket": props.storage.bucket.bucket_name,
        "log_group": props.job_logs.name,
        "file_system_mount": props.storage.files.mount_point,
        "instance_type": type_.name,
        "slurm_version": slurm_release(props.cluster),
        "efa_interfaces": efa_interface_count(machines.cluster),
    }


def _target(
    stack: SlurmStack,
    props: SlurmStackProps,
    scheduler: Scheduler,
    login: SlurmNodeGroup,
    workers: SlurmNodeGroup,
) -> SlurmTarget:
    cluster, storage = props.cluster, props.storage
    return SlurmTarget(
        name=cluster.name,
        account=stack.account,
        region=cluster.region,
        zone=cluster.zone,
        instance_type=cluster.instance_type,
        is_spot=False,
        max_nodes=cluster.max_nodes,
        scheduler_cluster=scheduler.id,
        queue=QUEUE,
        node_group=workers.id,
        login_group=login.id,
        run_document=run_document_name(cluster.name),
        log_group=props.job_logs.name,
        bucket=storage.bucket.bucket_name,
        machine_image=node_image_of(cluster).name,
        ami_parameter=ami_parameter_of(cluster),
        slurm_version=slurm_release(cluster),
        job_timeout_seconds=cluster.job_timeout // timedelta(seconds=1),
        efa_interfaces=efa_interface_count(cluster),
        file_system_id=storage.files.file_system_id,
        file_system_mount=storage.files.mount_point,
        scratch_mount=scratch_mount(props.scratch),
        has_internet=cluster.egress is Egress.NAT,
    )
