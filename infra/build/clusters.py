"""The stacks of one cluster on AWS Batch, in the order of their deployment, and what each tells the next."""

from __future__ import annotations

from constructs import Construct

from slipway.infra.build.parts import (
    NOTHING_GIVEN,
    BuiltCluster,
    Given,
    build_alerted_foundation,
    build_foundation,
    built,
)
from slipway.infra.declare.types import BatchCluster, MpiCluster, SageMakerCluster, SlurmCluster
from slipway.infra.patterns.batch.compute_environment import job_queue_name
from slipway.infra.patterns.mpi.node_group import node_group_name
from slipway.infra.patterns.network.endpoints import (
    BATCH_SERVICES,
    MPI_SERVICES,
    SAGEMAKER_SERVICES,
    SLURM_SERVICES,
)
from slipway.infra.patterns.observability.alarms import blocked_queue, counted_failures, failed_launches
from slipway.infra.stacks.batch import BatchStack, BatchStackProps
from slipway.infra.stacks.mpi import MpiStack, MpiStackProps
from slipway.infra.stacks.sagemaker import SageMakerStack, SageMakerStackProps
from slipway.infra.stacks.slurm import SlurmStack, SlurmStackProps
from slipway.infra.stacks.storage import ImagesStack, ImagesStackProps
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


# The stacks of one cluster of MPI machines, in the order of their deployment.


def build_mpi_cluster(scope: Construct, cluster: MpiCluster, given: Given = NOTHING_GIVEN) -> BuiltCluster:
    stuck = failed_launches(cluster.name, node_group_name(cluster.name))
    network, storage, observability = build_foundation(scope, cluster, MPI_SERVICES, stuck, given)
    compute = MpiStack(
        scope,
        stack_name(cluster.name),
        props=MpiStackProps(
            cluster=cluster,
            network=network.network,
            storage=storage.storage,
            job_logs=observability.job_logs,
            alerts=observability.alerts,
        ),
    )
    return built((network, storage, observability, compute), network, storage, compute)


# The stacks of one cluster of SageMaker training, in the order of their deployment.


def build_sagemaker_cluster(
    scope: Construct, cluster: SageMakerCluster, given: Given = NOTHING_GIVEN
) -> BuiltCluster:
    """Build all but what machines of our own would need: SageMaker brings its own, and its own log group."""
    network, storage, alerts = build_alerted_foundation(scope, cluster, SAGEMAKER_SERVICES, given)
    compute = SageMakerStack(
        scope,
        stack_name(cluster.name),
        props=SageMakerStackProps(
            cluster=cluster, network=network.network, storage=storage.storage, alerts=alerts.topic
        ),
    )
    return built((network, storage, alerts, compute), network, storage, compute)


# The stacks of one Slurm cluster, in the order of their deployment.


def build_slurm_cluster(
    scope: Construct, cluster: SlurmCluster, given: Given = NOTHING_GIVEN
) -> BuiltCluster:
    stuck = counted_failures(cluster.name)
    network, storage, observability = build_foundation(scope, cluster, SLURM_SERVICES, stuck, given)
    compute = SlurmStack(
        scope,
        stack_name(cluster.name),
        props=SlurmStackProps(
            cluster=cluster,
            network=network.network,
            storage=storage.storage,
            scratch=storage.add_scratch() if cluster.scratch else None,
            job_logs=observability.job_logs,
            scaling_logs=observability.add_log_group("ScalingLogs"),
        ),
    )
    return built((network, storage, observability, compute), network, storage, compute)
