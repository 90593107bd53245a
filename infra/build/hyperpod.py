"""The stacks of one cluster of SageMaker HyperPod, in the order of their deployment."""

from __future__ import annotations

from constructs import Construct

from slipway.infra.build.foundation import build_alerted_foundation
from slipway.infra.build.parts import NOTHING_GIVEN, BuiltCluster, Given, built
from slipway.infra.declare.types import HyperPodCluster
from slipway.infra.patterns.network.endpoints import HYPERPOD_SERVICES
from slipway.infra.stacks.hyperpod import HyperPodStack, HyperPodStackProps
from slipway.jobs.words.names import stack_name


def build_hyperpod_cluster(
    scope: Construct, cluster: HyperPodCluster, given: Given = NOTHING_GIVEN
) -> BuiltCluster:
    """Build all that PCS's clusters have but their alarms on nodes, which HyperPod watches itself."""
    network, storage, alerts = build_alerted_foundation(scope, cluster, HYPERPOD_SERVICES, given)
    compute = HyperPodStack(
        scope,
        stack_name(cluster.name),
        props=HyperPodStackProps(
            cluster=cluster, network=network.network, storage=storage.storage, alerts=alerts.topic
        ),
    )
    return built((network, storage, alerts, compute), network, storage, compute)
