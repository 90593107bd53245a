"""The stacks that a cluster of every kind stands on: its network, its storage, and what tells how it does."""

from __future__ import annotations

from collections.abc import Callable

from constructs import Construct

from slipway.infra.build.parts import Given
from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.observability.alarms import StuckEvents, StuckMetric
from slipway.infra.stacks.alerts import AlertsStack, AlertsStackProps
from slipway.infra.stacks.network import NetworkStack, NetworkStackProps
from slipway.infra.stacks.observability import ObservabilityStack, ObservabilityStackProps
from slipway.infra.stacks.storage import StorageStack, StorageStackProps
from slipway.jobs.words.names import stack_name


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
