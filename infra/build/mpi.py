"""The stacks of one cluster of MPI machines, in the order of their deployment."""

from __future__ import annotations

from constructs import Construct

from slipway.infra.build.foundation import build_foundation
from slipway.infra.build.parts import NOTHING_GIVEN, BuiltCluster, Given, built
from slipway.infra.declare.types import MpiCluster
from slipway.infra.patterns.mpi.node_group import node_group_name
from slipway.infra.patterns.network.endpoints import MPI_SERVICES
from slipway.infra.patterns.observability.alarms import failed_launches
from slipway.infra.stacks.mpi import MpiStack, MpiStackProps
from slipway.jobs.words.names import stack_name


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
