"""A cluster on AWS Batch: nodes, the queue before them, and the multi-node job that runs there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.machine_images import CONTAINERS
from slipway.infra.declare.node_images import ami_parameter_of, container_of, container_uri
from slipway.infra.declare.types import BatchCluster, Egress
from slipway.infra.patterns.access.target_record import TargetRecord, TargetRecordProps
from slipway.infra.patterns.batch.batch_access import NodeAccess, NodeAccessProps
from slipway.infra.patterns.batch.compute_environment import (
    JobQueue,
    JobQueueProps,
    MultiNodeJob,
    MultiNodeJobProps,
    NodePool,
    NodePoolProps,
)
from slipway.infra.patterns.batch.stuck_jobs import StuckJobCanceller, StuckJobCancellerProps
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.images.image_project import ImageRepository, build_project_name
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.nodes.boot import ECS_MEMBERSHIP, boot_parameters
from slipway.infra.patterns.nodes.launch_template import NodeTemplate, NodeTemplateProps, node_image_id
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count, node_security_group
from slipway.infra.patterns.storage.buckets import ClusterStorage
from slipway.jobs.words.images.containers import image_tag
from slipway.jobs.words.targets import BatchTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStackProps:
    cluster: BatchCluster
    network: ClusterNetwork
    storage: ClusterStorage
    job_logs: EncryptedLogGroup
    repository: ImageRepository


class BatchStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: BatchStackProps) -> None:
        cluster, storage = props.cluster, props.storage
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self.security_group_id = node_security_group(
            self, cluster, network=props.network, files=storage.files
        )
        access = NodeAccess(
            self,
            "Access",
            props=NodeAccessProps(storage=storage, log_group_arn=props.job_logs.arn),
        )
        self.job_role: iam.IRole = access.job_role.role
        pool = _node_pool(self, props, access)
        queue = JobQueue(self, "Queue", props=JobQueueProps(cluster=cluster, pool=pool))
        StuckJobCanceller(
            self,
            "Stuck",
            props=StuckJobCancellerProps(cluster=cluster, queue_arn=queue.resource.attr_job_queue_arn),
        )
        image = _image(props)
        job = _job(self, props, access, image)
        target = _target(self, props, queue=queue, job=job, image=image)
        TargetRecord(self, "Target", props=TargetRecordProps(target=target))


def _image(props: BatchStackProps) -> str:
    """Name the container of the ranks: AWS's own, or the one that is built into the cluster's repository."""
    cluster = props.cluster
    return container_uri(cluster) or f"{props.repository.uri}:{image_tag(CONTAINERS, container_of(cluster))}"


def _node_pool(stack: BatchStack, props: BatchStackProps, access: NodeAccess) -> NodePool:
    cluster = props.cluster
    image_id = node_image_id(stack, ami_parameter_of(cluster))
    template = NodeTemplate(
        stack,
        "NodeTemplate",
        props=NodeTemplateProps(
            cluster=cluster,
            security_group_id=stack.security_group_id,
            boot_parameters=boot_parameters(cluster, props.storage.files, ECS_MEMBERSHIP),
        ),
    )
    return NodePool(
        stack,
        "Pool",
        props=NodePoolProps(
            cluster=cluster,
            subnet_id=props.network.vpc.private_subnet_id,
            image_id=image_id,
            template=template,
            node_role=access.instance_role,
        ),
    )


def _job(stack: BatchStack, props: BatchStackProps, access: NodeAccess, image: str) -> MultiNodeJob:
    return MultiNodeJob(
        stack,
        "Job",
        props=MultiNodeJobProps(
            cluster=props.cluster,
            image=image,
            access=access,
            log_group_name=props.job_logs.name,
            files=props.storage.files,
        ),
    )


def _target(
    stack: BatchStack, props: BatchStackProps, *, queue: JobQueue, job: MultiNodeJob, image: str
) -> BatchTarget:
    cluster, storage = props.cluster, props.storage
    repository_uri, _, tag = image.rpartition(":")
    return BatchTarget(
        name=cluster.name,
        account=stack.account,
        region=cluster.region,
        zone=cluster.zone,
        instance_type=cluster.instance_type,
        max_nodes=cluster.max_nodes,
        queue_arn=queue.resource.attr_job_queue_arn,
        job_definition_arn=job.resource.ref,
        log_group=props.job_logs.name,
        bucket=storage.bucket.bucket_name,
        image=container_of(cluster),
        image_tag=tag,
        repository_uri=repository_uri,
        build_project=build_project_name(cluster.name),
        job_timeout_seconds=cluster.job_timeout // timedelta(seconds=1),
        job_attempts=cluster.job_attempts,
        efa_interfaces=efa_interface_count(cluster),
        file_system_id=storage.files.file_system_id,
        file_system_mount=storage.files.mount_point,
        has_internet=cluster.egress is Egress.NAT,
    )
