"""The stacks of one cluster of SageMaker HyperPod, in the order of their deployment."""

from __future__ import annotations

import aws_cdk as cdk

from slipway.infra.declare.types import HyperPodCluster
from slipway.infra.patterns.network.endpoints import HYPERPOD_SERVICES
from slipway.infra.stacks.alerts import AlertsStack, AlertsStackProps
from slipway.infra.stacks.hyperpod import HyperPodStack, HyperPodStackProps
from slipway.infra.stacks.network import NetworkStack, NetworkStackProps
from slipway.infra.stacks.storage import StorageStack, StorageStackProps
from slipway.jobs.core.names import stack_name


def build_hyperpod_cluster(app: cdk.App, cluster: HyperPodCluster) -> None:
    """Build all that PCS's clusters have but their alarms on nodes, which HyperPod watches itself."""
    network = NetworkStack(
        app,
        stack_name(cluster.name, "network"),
        props=NetworkStackProps(cluster=cluster, services=HYPERPOD_SERVICES),
    )
    storage = StorageStack(
        app,
        stack_name(cluster.name, "storage"),
        props=StorageStackProps(cluster=cluster, network=network.network),
    )
    alerts = AlertsStack(
        app,
        stack_name(cluster.name, "observability"),
        props=AlertsStackProps(cluster=cluster, network=network.network),
    )
    HyperPodStack(
        app,
        stack_name(cluster.name),
        props=HyperPodStackProps(
            cluster=cluster, network=network.network, storage=storage.storage, alerts=alerts.topic
        ),
    )
