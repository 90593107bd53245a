"""A cluster of equal machines that run jobs over MPI and ssh: its nodes, and how jobs reach them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.node_images import ami_parameter_of, node_image_of
from slipway.infra.declare.types import Egress, MpiCluster
from slipway.infra.patterns.access.cluster_secret import ClusterSecret
from slipway.infra.patterns.access.records import publish_target
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.foundation import NodeFoundation
from slipway.infra.patterns.mpi.mpi_access import MpiAccess, RunDocuments, document_name
from slipway.infra.patterns.mpi.node_group import NodeGroup, node_group_name
from slipway.infra.patterns.nodes.boot import MPI_MEMBERSHIP, boot_parameters
from slipway.infra.patterns.nodes.launch_template import (
    LaunchedMachine,
    NodeTemplate,
    NodeTemplateProps,
    node_image_id,
    threads_after_boot,
)
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count, node_security_group, purchase
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.targets import MpiTarget


class MpiStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, cluster: MpiCluster, base: NodeFoundation) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        secret = ClusterSecret(self, "Secret", cluster=cluster)
        access = MpiAccess(self, "Access", cluster=cluster, base=base, secret=secret)
        self.job_role: iam.IRole = access.job_role.role
        self.security_group_id = node_security_group(self, cluster, base, ssh_cidrs=cluster.ssh_cidrs)
        image_id = node_image_id(self, ami_parameter_of(cluster))
        profile = iam.CfnInstanceProfile(self, "InstanceProfile", roles=[access.node_role.role.role_name])
        template = NodeTemplate(
            self,
            "NodeTemplate",
            props=NodeTemplateProps(
                cluster=cluster,
                security_group_id=self.security_group_id,
                boot_parameters=_boot_parameters(cluster, base, access, secret),
                machine=LaunchedMachine(image_id=image_id, instance_profile_arn=profile.attr_arn),
            ),
        )
        NodeGroup(
            self, "NodeGroup", cluster=cluster, base=base, template=template, node_role=access.node_role
        )
        RunDocuments(self, "Documents", cluster=cluster)
        publish_target(self, _target(cluster, base, self.account))


def _boot_parameters(
    cluster: MpiCluster, base: NodeFoundation, access: MpiAccess, secret: ClusterSecret
) -> Mapping[str, object]:
    """Return what a first boot reads, without secrets: anybody on a node can read its user data."""
    files = base.storage.files
    return {
        **boot_parameters(cluster, files, MPI_MEMBERSHIP, group=node_group_name(cluster.name)),
        "secret_arn": secret.arn,
        "job_role_arn": access.job_role.arn,
        "bucket": base.storage.bucket.bucket_name,
        "file_system_mount": files.mount_point,
        "nodes": cluster.max_nodes,
        "mpi": cluster.mpi.value,
        "log_group": base.job_logs.name,
        "smt": threads_after_boot(instance_type(cluster.instance_type)),
    }


def _target(cluster: MpiCluster, base: NodeFoundation, account: str) -> MpiTarget:
    files = base.storage.files
    return MpiTarget(
        name=cluster.name,
        account=account,
        region=cluster.region,
        zone=cluster.zone,
        instance_type=cluster.instance_type,
        is_spot=purchase(cluster).is_spot,
        max_nodes=cluster.max_nodes,
        node_group=node_group_name(cluster.name),
        run_document=document_name(cluster.name, "run"),
        stop_document=document_name(cluster.name, "stop"),
        log_group=base.job_logs.name,
        bucket=base.storage.bucket.bucket_name,
        machine_image=node_image_of(cluster).name,
        ami_parameter=ami_parameter_of(cluster),
        mpi=cluster.mpi.value,
        job_timeout_seconds=cluster.job_timeout // timedelta(seconds=1),
        efa_interfaces=efa_interface_count(cluster),
        file_system_id=files.file_system_id,
        file_system_mount=files.mount_point,
        has_internet=cluster.egress is Egress.NAT,
    )
