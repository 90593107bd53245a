"""Builds the stacks of each kind of cluster, in order of deployment. A new kind is a row of BUILDERS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from constructs import Construct

from slipway.infra.build.parts import BaseStacks, BuiltCluster, Given
from slipway.infra.declare.types import BatchCluster, Cluster, MpiCluster, SageMakerCluster, SlurmCluster
from slipway.infra.patterns.batch.compute_environment import job_queue_name
from slipway.infra.patterns.mpi.node_group import node_group_name
from slipway.infra.patterns.observability.alarms import blocked_queue, counted_failures, failed_launches
from slipway.infra.stacks.batch import BatchStack
from slipway.infra.stacks.mpi import MpiStack
from slipway.infra.stacks.sagemaker import SageMakerStack
from slipway.infra.stacks.slurm import SlurmStack
from slipway.infra.stacks.storage import ImagesStack
from slipway.jobs.words.names import stack_name


def _batch(scope: Construct, cluster: BatchCluster, given: Given) -> BuiltCluster:
    stacks = BaseStacks(scope, cluster, given)
    observability, base = stacks.add_observability(blocked_queue(cluster.name, job_queue_name(cluster.name)))
    repository = stacks.storage.add_image_repository()
    images = ImagesStack(
        scope,
        stack_name(cluster.name, "images"),
        cluster=cluster,
        storage=base.storage,
        repository=repository,
        build_logs=observability.add_log_group("BuildLogs"),
    )
    own = BatchStack(scope, stack_name(cluster.name), cluster=cluster, base=base, repository=repository)
    # `cdk deploy dl1` also deploys the means to build its image.
    own.add_stack_dependency(images)
    return stacks.built(observability, images, own, nodes=own)


def _mpi(scope: Construct, cluster: MpiCluster, given: Given) -> BuiltCluster:
    stacks = BaseStacks(scope, cluster, given)
    stuck = failed_launches(cluster.name, node_group_name(cluster.name))
    observability, base = stacks.add_observability(stuck)
    own = MpiStack(scope, stack_name(cluster.name), cluster=cluster, base=base)
    return stacks.built(observability, own, nodes=own)


def _slurm(scope: Construct, cluster: SlurmCluster, given: Given) -> BuiltCluster:
    stacks = BaseStacks(scope, cluster, given)
    observability, base = stacks.add_observability(counted_failures(cluster.name))
    own = SlurmStack(
        scope,
        stack_name(cluster.name),
        cluster=cluster,
        base=base,
        scratch=stacks.storage.add_scratch() if cluster.scratch else None,
        scaling_logs=observability.add_log_group("ScalingLogs"),
    )
    return stacks.built(observability, own, nodes=own)


def _sagemaker(scope: Construct, cluster: SageMakerCluster, given: Given) -> BuiltCluster:
    """Build the stacks without those for machines of ours: SageMaker has its own machines and log group."""
    stacks = BaseStacks(scope, cluster, given)
    alerts, base = stacks.add_alerts()
    own = SageMakerStack(scope, stack_name(cluster.name), cluster=cluster, base=base)
    return stacks.built(alerts, own, nodes=own)


# Any: each builder takes the kind of its own row.
BUILDERS: Mapping[type[Cluster], Callable[[Construct, Any, Given], BuiltCluster]] = {
    BatchCluster: _batch,
    MpiCluster: _mpi,
    SlurmCluster: _slurm,
    SageMakerCluster: _sagemaker,
}
