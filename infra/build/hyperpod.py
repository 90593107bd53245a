"""The stacks of one cluster of SageMaker HyperPod, in the order of their deployment."""

from __future__ import annotations

import aws_cdk as cdk

from slipway.infra.build.foundation import build_alerted_foundation
from slipway.infra.declare.types import HyperPodCluster
from slipway.infra.patterns.network.endpoints import HYPERPOD_SERVICES
from slipway.infra.stacks.hyperpod import HyperPodStack, HyperPodStackProps
from slipway.jobs.core.names import stack_name


def build_hyperpod_cluster(app: cdk.App, cluster: HyperPodCluster) -> None:
    """Build all that PCS's clusters have but their alarms on nodes, which HyperPod watches itself."""
    network, storage, alerts = build_alerted_foundation(app, cluster, HYPERPOD_SERVICES)
    HyperPodStack(
        app,
        stack_name(cluster.name),
        props=HyperPodStackProps(
            cluster=cluster, network=network.network, storage=storage.storage, alerts=alerts.topic
        ),
    )
