"""A Slurm cluster on AWS PCS: its controller, its login node, its workers, and how jobs reach them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.node_images import (
    ami_parameter_of,
    node_image_of,
    slurm_release,
)
from slipway.infra.declare.types import Egress, SlurmCluster
from slipway.infra.patterns.access.records import publish_target
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.foundation import NodeFoundation
from slipway.infra.patterns.nodes.boot import boot_parameters
from slipway.infra.patterns.nodes.launch_template import (
    FleetMachine,
    NodeTemplate,
    NodeTemplateProps,
    node_image_id,
)
from slipway.infra.patterns.nodes.network_interfaces import (
    capacity_block_of,
    efa_interface_count,
    placement_group,
    purchase,
)
from slipway.infra.patterns.slurm.node_groups import (
    Machines,
    ScalingLog,
    Scheduler,
    SlurmNodeGroup,
    add_queue,
    login_node,
    scratch_mount,
    scratch_parameters,
    slurm_security_group,
    workers,
)
from slipway.infra.patterns.slurm.slurm_access import (
    RunDocument,
    SlurmAccess,
    bare_machines,
    container_of,
    first_boot_parameters,
    run_document_name,
)
from slipway.infra.patterns.statements import ACCOUNT_ID
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.slurm import QUEUE
from slipway.jobs.words.targets import SlurmTarget


class SlurmStack(DeclaredStack):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: SlurmCluster,
        base: NodeFoundation,
        scratch: SharedFiles | None,
        scaling_logs: EncryptedLogGroup,
    ) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self._base, self._scratch = base, scratch
        self._image_id = node_image_id(self, ami_parameter_of(cluster))
        self.security_group_id = slurm_security_group(self, cluster, base, scratch)
        self._scheduler = Scheduler(
            self,
            "Scheduler",
            cluster=cluster,
            subnet_id=base.subnet_id,
            security_group_id=self.security_group_id,
        )
        self._bare = bare_machines(self, cluster)
        access = SlurmAccess(self, "Access", base=base, bare=self._bare)
        self.job_role: iam.IRole = access.worker.role.role
        login = self._add("LoginNode", login_node(cluster, access.login))
        group = placement_group(self, cluster)
        worker = self._add("Workers", workers(cluster, access.worker, group))
        add_queue(self, cluster, self._scheduler, worker.id)
        RunDocument(self, "RunDocument", cluster=cluster)
        ScalingLog(
            self,
            "ScalingLog",
            cluster=cluster.name,
            scheduler=self._scheduler,
            log_group=scaling_logs,
        )
        publish_target(self, self._target(cluster, login, worker))

    def _add(self, id: str, machines: Machines) -> SlurmNodeGroup:
        name = f"{machines.cluster.name}-{machines.name}"
        template = NodeTemplate(
            self,
            f"{id}Template",
            props=NodeTemplateProps(
                cluster=machines.cluster,
                security_group_id=self.security_group_id,
                boot_parameters=self._boot_parameters(machines),
                fleet=FleetMachine(name=name, placement_group=machines.placement_group),
            ),
        )
        return SlurmNodeGroup(
            self,
            id,
            machines=machines,
            scheduler=self._scheduler,
            template=template,
            image_id=self._image_id,
        )

    def _boot_parameters(self, machines: Machines) -> Mapping[str, object]:
        """Return what a first boot reads, and what the prolog looks for on a worker."""
        storage, cluster = self._base.storage, machines.cluster
        return {
            **boot_parameters(cluster, storage.files, machines.membership),
            **scratch_parameters(self._scratch),
            "account": ACCOUNT_ID,
            "bucket": storage.bucket.bucket_name,
            "log_group": self._base.job_logs.name,
            "file_system_mount": storage.files.mount_point,
            "instance_type": instance_type(cluster.instance_type).name,
            "slurm_version": slurm_release(cluster),
            "efa_interfaces": efa_interface_count(cluster),
            **first_boot_parameters(self._bare),
        }

    def _target(self, cluster: SlurmCluster, login: SlurmNodeGroup, workers: SlurmNodeGroup) -> SlurmTarget:
        storage = self._base.storage
        return SlurmTarget(
            name=cluster.name,
            account=self.account,
            region=cluster.region,
            zone=cluster.zone,
            instance_type=cluster.instance_type,
            is_spot=purchase(cluster).is_spot,
            max_nodes=cluster.max_nodes,
            scheduler_cluster=self._scheduler.id,
            queue=QUEUE,
            node_group=workers.id,
            login_group=login.id,
            run_document=run_document_name(cluster.name),
            log_group=self._base.job_logs.name,
            bucket=storage.bucket.bucket_name,
            machine_image=node_image_of(cluster).name,
            ami_parameter=ami_parameter_of(cluster),
            slurm_version=slurm_release(cluster),
            job_timeout_seconds=cluster.job_timeout // timedelta(seconds=1),
            efa_interfaces=efa_interface_count(cluster),
            file_system_id=storage.files.file_system_id,
            file_system_mount=storage.files.mount_point,
            scratch_mount=scratch_mount(self._scratch),
            has_internet=cluster.egress is Egress.NAT,
            capacity_block=capacity_block_of(cluster),
            container=container_of(cluster),
        )
