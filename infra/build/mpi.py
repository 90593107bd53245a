"""The stacks of one cluster of MPI machines, in the order of their deployment."""

from __future__ import annotations

import aws_cdk as cdk

from slipway.infra.build.foundation import (
    build_network,
    build_observability,
    build_storage,
    cluster_tags,
    environment,
    place_of,
    tag,
)
from slipway.infra.declare.types import MpiCluster
from slipway.infra.patterns.mpi.node_group import Hours
from slipway.infra.patterns.network.endpoints import MPI_SERVICES
from slipway.infra.patterns.nodes.markets import purchase
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count
from slipway.infra.patterns.observability.alarms import failed_launches
from slipway.infra.stacks.mpi import MachineProps, MpiProps, MpiStack
from slipway.infra.stacks.network import NetworkStack
from slipway.infra.stacks.observability import ObservabilityStack
from slipway.infra.stacks.storage import StorageStack
from slipway.jobs.catalogue.instances import instance_type
from slipway.jobs.core.names import derived_name, stack_name


def build_mpi_cluster(app: cdk.App, cluster: MpiCluster) -> None:
    network = build_network(app, cluster, MPI_SERVICES)
    storage = build_storage(app, cluster, network)
    stuck = failed_launches(cluster.name, _node_group(cluster))
    observability = build_observability(app, cluster, network, stuck)
    compute = _compute(app, cluster, (network, storage, observability))
    tag(cluster, network, storage, observability, compute)


def _compute(
    app: cdk.App, cluster: MpiCluster, below: tuple[NetworkStack, StorageStack, ObservabilityStack]
) -> MpiStack:
    network, storage, observability = below
    name = stack_name(cluster.name)
    props = MpiProps(
        cluster=cluster.name,
        stack_name=name,
        env=environment(cluster),
        place=place_of(cluster, network),
        machines=_machines(cluster),
        node_group=_node_group(cluster),
        idle_minutes=cluster.idle_minutes,
        hours=Hours(start_at=cluster.start_at, stop_at=cluster.stop_at, time_zone=cluster.time_zone),
        ssh_cidrs=cluster.ssh_cidrs,
        bucket=storage.bucket,
        data_key=storage.key,
        files=storage.files,
        job_logs=observability.job_logs,
        job_timeout_hours=cluster.job_timeout_hours,
        tags=cluster_tags(cluster),
    )
    return MpiStack(app, name, props=props)


def _machines(cluster: MpiCluster) -> MachineProps:
    facts = instance_type(cluster.instance_type)
    return MachineProps(
        instance_type=facts,
        nodes=cluster.max_nodes,
        efa_interfaces=efa_interface_count(facts, cluster.efa_interfaces),
        purchase=purchase(cluster.market, cluster.reservation_id),
        machine_image=cluster.machine_image,
        ami_parameter=cluster.ami_parameter,
        root_volume_gib=cluster.root_volume_gib,
        mpi=cluster.mpi.value,
    )


def _node_group(cluster: MpiCluster) -> str:
    return derived_name("node-group", cluster.name)
