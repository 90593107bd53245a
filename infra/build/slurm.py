"""The stacks of one Slurm cluster, in the order of their deployment."""

from __future__ import annotations

from constructs import Construct

from slipway.infra.build.foundation import build_foundation
from slipway.infra.build.parts import NOTHING_GIVEN, BuiltCluster, Given, built
from slipway.infra.declare.types import SlurmCluster
from slipway.infra.patterns.network.endpoints import SLURM_SERVICES
from slipway.infra.patterns.observability.launch_failures import counted_failures
from slipway.infra.stacks.slurm import SlurmStack, SlurmStackProps
from slipway.jobs.words.names import stack_name


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
