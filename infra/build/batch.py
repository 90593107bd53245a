"""The stacks of one cluster on AWS Batch, in the order of their deployment, and what each tells the next."""

from __future__ import annotations

from constructs import Construct

from slipway.infra.build.foundation import build_foundation
from slipway.infra.build.parts import NOTHING_GIVEN, BuiltCluster, Given, built
from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.batch.compute_environment import job_queue_name
from slipway.infra.patterns.network.endpoints import BATCH_SERVICES
from slipway.infra.patterns.observability.alarms import blocked_queue
from slipway.infra.stacks.batch import BatchStack, BatchStackProps
from slipway.infra.stacks.images import ImagesStack, ImagesStackProps
from slipway.jobs.words.names import stack_name


def build_batch_cluster(
    scope: Construct, cluster: BatchCluster, given: Given = NOTHING_GIVEN
) -> BuiltCluster:
    stuck = blocked_queue(cluster.name, job_queue_name(cluster.name))
    network, storage, observability = build_foundation(scope, cluster, BATCH_SERVICES, stuck, given)
    repository = storage.add_image_repository()
    images = ImagesStack(
        scope,
        stack_name(cluster.name, "images"),
        props=ImagesStackProps(
            cluster=cluster,
            storage=storage.storage,
            repository=repository,
            build_logs=observability.add_log_group("BuildLogs"),
        ),
    )
    compute = BatchStack(
        scope,
        stack_name(cluster.name),
        props=BatchStackProps(
            cluster=cluster,
            network=network.network,
            storage=storage.storage,
            job_logs=observability.job_logs,
            repository=repository,
        ),
    )
    # `cdk deploy dl1` brings the means to build its image along.
    compute.add_stack_dependency(images)
    return built((network, storage, observability, images, compute), network, storage, compute)
