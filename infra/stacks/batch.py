"""A cluster on AWS Batch: nodes, their queue, and the multi-node job that runs there."""

from __future__ import annotations

from datetime import timedelta

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.machine_images import CONTAINERS
from slipway.infra.declare.node_images import container_of, container_uri
from slipway.infra.declare.types import BatchCluster, Egress
from slipway.infra.patterns.access.records import publish_target
from slipway.infra.patterns.batch.batch_access import NodeAccess
from slipway.infra.patterns.batch.compute_environment import JobQueue, MultiNodeJob, NodePool
from slipway.infra.patterns.batch.stuck_jobs import StuckJobCanceller
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.foundation import NodeFoundation
from slipway.infra.patterns.images.image_project import ImageRepository, build_project_name
from slipway.infra.patterns.nodes.boot import ECS_MEMBERSHIP, boot_parameters
from slipway.infra.patterns.nodes.launch_template import NodeTemplate, NodeTemplateProps
from slipway.infra.patterns.nodes.network_interfaces import (
    capacity_block_of,
    efa_interface_count,
    node_security_group,
)
from slipway.jobs.words.images.containers import image_tag
from slipway.jobs.words.targets import BatchTarget


class BatchStack(DeclaredStack):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: BatchCluster,
        base: NodeFoundation,
        repository: ImageRepository,
    ) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self.security_group_id = node_security_group(self, cluster, base)
        access = NodeAccess(self, "Access", cluster=cluster, base=base)
        self.job_role: iam.IRole = access.job_role.role
        template = NodeTemplate(
            self,
            "NodeTemplate",
            props=NodeTemplateProps(
                cluster=cluster,
                security_group_id=self.security_group_id,
                boot_parameters=boot_parameters(cluster, base.storage.files, ECS_MEMBERSHIP),
            ),
        )
        pool = NodePool(
            self,
            "Pool",
            cluster=cluster,
            subnet_id=base.subnet_id,
            template=template,
            node_role=access.instance_role,
        )
        queue = JobQueue(self, "Queue", cluster=cluster, pool=pool)
        StuckJobCanceller(self, "Stuck", cluster=cluster, queue_arn=queue.resource.attr_job_queue_arn)
        image = container_uri(cluster) or f"{repository.uri}:{image_tag(CONTAINERS, container_of(cluster))}"
        job = MultiNodeJob(self, "Job", cluster=cluster, base=base, access=access, image=image)
        publish_target(self, _target(cluster, base, image, queue=queue, job=job))


def _target(
    cluster: BatchCluster,
    base: NodeFoundation,
    image: str,
    *,
    queue: JobQueue,
    job: MultiNodeJob,
) -> BatchTarget:
    files = base.storage.files
    repository_uri, _, tag = image.rpartition(":")
    return BatchTarget(
        name=cluster.name,
        account=Stack.of(job).account,
        region=cluster.region,
        zone=cluster.zone,
        instance_type=cluster.instance_type,
        max_nodes=cluster.max_nodes,
        queue_arn=queue.resource.attr_job_queue_arn,
        job_definition_arn=job.resource.ref,
        log_group=base.job_logs.name,
        bucket=base.storage.bucket.bucket_name,
        image=container_of(cluster),
        image_tag=tag,
        repository_uri=repository_uri,
        build_project=build_project_name(cluster.name),
        job_timeout_seconds=cluster.job_timeout // timedelta(seconds=1),
        job_attempts=cluster.job_attempts,
        efa_interfaces=efa_interface_count(cluster),
        file_system_id=files.file_system_id,
        file_system_mount=files.mount_point,
        has_internet=cluster.egress is Egress.NAT,
        capacity_block=capacity_block_of(cluster),
    )
