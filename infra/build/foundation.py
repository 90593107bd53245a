"""What a cluster of every kind stands on: its network, its storage, and what tells how it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import aws_cdk as cdk
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.nodes.places import PlaceProps
from slipway.infra.patterns.observability.alarms import StuckEvents
from slipway.infra.stacks.network import NetworkProps, NetworkStack
from slipway.infra.stacks.observability import ObservabilityProps, ObservabilityStack
from slipway.infra.stacks.storage import StorageProps, StorageStack
from slipway.jobs.core.names import CLUSTER_TAG, derived_name, stack_name


def build_network(app: cdk.App, cluster: Cluster, services: tuple[str, ...]) -> NetworkStack:
    """`services` are those of AWS that its nodes call."""
    name = stack_name(cluster.name, "network")
    props = NetworkProps(
        cluster=cluster.name,
        stack_name=name,
        env=environment(cluster),
        region=cluster.region,
        zone=cluster.zone,
        cidr=cluster.vpc_cidr,
        egress=cluster.egress,
        services=services,
        log_retention_days=cluster.log_retention_days,
        keep_data=cluster.keep_data,
    )
    return NetworkStack(app, name, props=props)


def build_storage(app: cdk.App, cluster: Cluster, network: NetworkStack) -> StorageStack:
    name = stack_name(cluster.name, "storage")
    props = StorageProps(
        cluster=cluster.name,
        stack_name=name,
        env=environment(cluster),
        region=cluster.region,
        vpc_id=network.vpc.vpc_id,
        subnet_id=network.vpc.private_subnet_id,
        file_system=cluster.file_system,
        fsx_capacity_gib=cluster.fsx_capacity_gib,
        fsx_mbps_per_tib=cluster.fsx_mbps_per_tib,
        log_retention_days=cluster.log_retention_days,
        keep_data=cluster.keep_data,
    )
    return StorageStack(app, name, props=props)


def build_observability(
    app: cdk.App, cluster: Cluster, network: NetworkStack, stuck: Callable[[Construct], StuckEvents]
) -> ObservabilityStack:
    """`stuck` tells why jobs of this kind of cluster do not run."""
    name = stack_name(cluster.name, "observability")
    props = ObservabilityProps(
        cluster=cluster.name,
        stack_name=name,
        env=environment(cluster),
        log_key=network.log_key,
        log_retention_days=cluster.log_retention_days,
        keep_data=cluster.keep_data,
        stuck=stuck,
        dashboard_name=derived_name("dashboard", cluster.name),
        budget_usd_per_month=cluster.budget_usd_per_month,
        alert_email=cluster.alert_email,
    )
    return ObservabilityStack(app, name, props=props)


def place_of(cluster: Cluster, network: NetworkStack) -> PlaceProps:
    return PlaceProps(
        region=cluster.region,
        zone=cluster.zone,
        vpc_id=network.vpc.vpc_id,
        subnet_id=network.vpc.private_subnet_id,
        egress=cluster.egress,
        endpoint_security_group_id=network.endpoint_security_group_id,
    )


def environment(cluster: Cluster) -> cdk.Environment:
    """The account stays open where none is declared: any that the credentials belong to."""
    return cdk.Environment(account=cluster.account, region=cluster.region)


def cluster_tags(cluster: Cluster) -> Mapping[str, str]:
    return MappingProxyType({**cluster.tags, CLUSTER_TAG: cluster.name})


def tag(cluster: Cluster, *stacks: cdk.Stack) -> None:
    for stack in stacks:
        for key, value in cluster_tags(cluster).items():
            cdk.Tags.of(stack).add(key, value)
