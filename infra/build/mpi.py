"""The stacks of one cluster of MPI machines, in the order of their deployment."""

from __future__ import annotations

import aws_cdk as cdk

from slipway.infra.build.foundation import build_foundation
from slipway.infra.declare.types import MpiCluster
from slipway.infra.patterns.mpi.node_group import node_group_name
from slipway.infra.patterns.network.endpoints import MPI_SERVICES
from slipway.infra.patterns.observability.alarms import failed_launches
from slipway.infra.stacks.mpi import MpiStack, MpiStackProps
from slipway.jobs.core.names import stack_name


def build_mpi_cluster(app: cdk.App, cluster: MpiCluster) -> None:
    stuck = failed_launches(cluster.name, node_group_name(cluster.name))
    network, storage, observability = build_foundation(app, cluster, MPI_SERVICES, stuck)
    MpiStack(
        app,
        stack_name(cluster.name),
        props=MpiStackProps(
            cluster=cluster,
            network=network.network,
            storage=storage.storage,
            job_logs=observability.job_logs,
            alerts=observability.alerts,
        ),
    )
