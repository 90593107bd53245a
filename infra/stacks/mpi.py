"""A cluster of equal machines that run jobs over MPI and ssh: its nodes, and how jobs reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from slipway.infra.declare.node_images import ami_parameter_of, node_image_of
from slipway.infra.declare.types import Egress, MpiCluster
from slipway.infra.patterns.access.cluster_secret import ClusterSecret, ClusterSecretProps
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.access.target_record import TargetRecord, TargetRecordProps
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.mpi.mpi_access import (
    MpiAccess,
    MpiAccessProps,
    RunDocuments,
    RunDocumentsProps,
    document_name,
)
from slipway.infra.patterns.mpi.node_group import NodeGroup, NodeGroupProps, node_group_name
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.nodes.boot import MPI_MEMBERSHIP, boot_parameters
from slipway.infra.patterns.nodes.launch_template import (
    LaunchedMachine,
    NodeTemplate,
    NodeTemplateProps,
    node_image_id,
    threads_after_boot,
)
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count, node_security_group, purchase
from slipway.infra.patterns.storage.buckets import ClusterStorage
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.targets import MpiTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiStackProps:
    cluster: MpiCluster
    network: ClusterNetwork
    storage: ClusterStorage
    job_logs: EncryptedLogGroup
    alerts: sns.ITopic


class MpiStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: MpiStackProps) -> None:
        cluster = props.cluster
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        secret = ClusterSecret(
            self, "Secret", props=ClusterSecretProps(cluster=cluster.name, region=cluster.region)
        )
        access = MpiAccess(
            self,
            "Access",
            props=MpiAccessProps(
                node_group=node_group_name(cluster.name),
                storage=props.storage,
                secret=secret,
                log_group_arn=props.job_logs.arn,
            ),
        )
        self.job_role: iam.IRole = access.job_role.role
        self.security_group_id = node_security_group(
            self, cluster, network=props.network, files=props.storage.files, ssh_cidrs=cluster.ssh_cidrs
        )
        template = _template(self, props, access, secret)
        _node_group(self, props, access.node_role, template)
        RunDocuments(self, "Documents", props=RunDocumentsProps(cluster=cluster))
        TargetRecord(self, "Target", props=TargetRecordProps(target=_target(self, props)))


def _template(
    stack: MpiStack, props: MpiStackProps, access: MpiAccess, secret: ClusterSecret
) -> NodeTemplate:
    cluster = props.cluster
    image_id = node_image_id(stack, ami_parameter_of(cluster))
    profile = iam.CfnInstanceProfile(stack, "InstanceProfile", roles=[access.node_role.role.role_name])
    return NodeTemplate(
        stack,
        "NodeTemplate",
        props=NodeTemplateProps(
            cluster=cluster,
            security_group_id=stack.security_group_id,
            boot_parameters=_boot_parameters(props, access, secret),
            machine=LaunchedMachine(image_id=image_id, instance_profile_arn=profile.attr_arn),
        ),
    )


def _boot_parameters(props: MpiStackProps, access: MpiAccess, secret: ClusterSecret) -> Mapping[str, object]:
    """Return what a first boot reads, without secrets: anybody on a node can read its user data."""
    cluster, storage = props.cluster, props.storage
    return {
        **boot_parameters(cluster, storage.files, MPI_MEMBERSHIP, group=node_group_name(cluster.name)),
        "secret_arn": secret.arn,
        "job_role_arn": access.job_role.arn,
        "bucket": storage.bucket.bucket_name,
        "file_system_mount": storage.files.mount_point,
        "nodes": cluster.max_nodes,
        "mpi": cluster.mpi.value,
        "log_group": props.job_logs.name,
        "smt": threads_after_boot(instance_type(cluster.instance_type)),
    }


def _node_group(
    stack: MpiStack, props: MpiStackProps, role: ServiceRole, template: NodeTemplate
) -> NodeGroup:
    return NodeGroup(
        stack,
        "NodeGroup",
        props=NodeGroupProps(
            cluster=props.cluster,
            subnet_id=props.network.vpc.private_subnet_id,
            template=template,
            node_role=role,
            alerts_arn=props.alerts.topic_arn,
        ),
    )


def _target(stack: MpiStack, props: MpiStackProps) -> MpiTarget:
    cluster, storage = props.cluster, props.storage
    return MpiTarget(
        name=cluster.name,
        account=stack.account,
        region=cluster.region,
        zone=cluster.zone,
        instance_type=cluster.instance_type,
        is_spot=purchase(cluster).is_spot,
        max_nodes=cluster.max_nodes,
        node_group=node_group_name(cluster.name),
        run_document=document_name(cluster.name, "run"),
        stop_document=document_name(cluster.name, "stop"),
        log_group=props.job_logs.name,
        bucket=storage.bucket.bucket_name,
        machine_image=node_image_of(cluster).name,
        ami_parameter=ami_parameter_of(cluster),
        mpi=cluster.mpi.value,
        job_timeout_seconds=cluster.job_timeout // timedelta(seconds=1),
        efa_interfaces=efa_interface_count(cluster),
        file_system_id=storage.files.file_system_id,
        file_system_mount=storage.files.mount_point,
        has_internet=cluster.egress is Egress.NAT,
    )
