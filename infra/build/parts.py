"""What a cluster is built on, where it is the user's own, and what an app may go on with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.network.given_network import make_network
from slipway.infra.patterns.network.vpc import ClusterNetwork, NetworkOf
from slipway.infra.patterns.observability.alarms import StuckEvents, StuckMetric
from slipway.infra.patterns.storage.buckets import BucketOf, ClusterStorage, make_bucket
from slipway.infra.stacks.network import NetworkStack, NetworkStackProps
from slipway.infra.stacks.observability import (
    AlertsStack,
    AlertsStackProps,
    ObservabilityStack,
    ObservabilityStackProps,
)
from slipway.infra.stacks.storage import StorageStack, StorageStackProps
from slipway.jobs.words.names import stack_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Says where network and bucket come from: the cluster makes its own, or they are the user's."""

    network: NetworkOf = make_network
    bucket: BucketOf = make_bucket


NOTHING_GIVEN = Given()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCluster:
    stacks: tuple[Stack, ...]  # in the order of their deployment
    network: ClusterNetwork
    storage: ClusterStorage
    security_group_id: str  # of the nodes
    job_role: iam.IRole  # which jobs have


class HoldsNodes(Protocol):
    @property
    def security_group_id(self) -> str: ...

    @property
    def job_role(self) -> iam.IRole: ...


def built(
    stacks: tuple[Stack, ...], network: NetworkStack, storage: StorageStack, nodes: HoldsNodes
) -> BuiltCluster:
    """Name what every kind of cluster has, of the stacks that hold it."""
    return BuiltCluster(
        stacks=stacks,
        network=network.network,
        storage=storage.storage,
        security_group_id=nodes.security_group_id,
        job_role=nodes.job_role,
    )


# The stacks that a cluster of every kind stands on: its network, its storage, and what tells how it does.


def build_foundation(
    scope: Construct,
    cluster: Cluster,
    services: tuple[str, ...],
    stuck: Callable[[Construct], StuckEvents | StuckMetric],
    given: Given,
) -> tuple[NetworkStack, StorageStack, ObservabilityStack]:
    """Build the stacks for nodes that call `services`; `stuck` tells why jobs do not run."""
    network, storage = _network_and_storage(scope, cluster, services, given)
    observability = ObservabilityStack(
        scope,
        stack_name(cluster.name, "observability"),
        props=ObservabilityStackProps(cluster=cluster, network=network.network, stuck=stuck),
    )
    return network, storage, observability


def build_alerted_foundation(
    scope: Construct, cluster: Cluster, services: tuple[str, ...], given: Given
) -> tuple[NetworkStack, StorageStack, AlertsStack]:
    """Build the stacks for machines of SageMaker, which watches them itself."""
    network, storage = _network_and_storage(scope, cluster, services, given)
    alerts = AlertsStack(
        scope,
        stack_name(cluster.name, "observability"),
        props=AlertsStackProps(cluster=cluster, network=network.network),
    )
    return network, storage, alerts


def _network_and_storage(
    scope: Construct, cluster: Cluster, services: tuple[str, ...], given: Given
) -> tuple[NetworkStack, StorageStack]:
    network = NetworkStack(
        scope,
        stack_name(cluster.name, "network"),
        props=NetworkStackProps(cluster=cluster, services=services, network=given.network),
    )
    storage = StorageStack(
        scope,
        stack_name(cluster.name, "storage"),
        props=StorageStackProps(cluster=cluster, network=network.network, bucket=given.bucket),
    )
    return network, storage
