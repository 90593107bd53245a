"""The stacks of one cluster of SageMaker training, in the order of their deployment."""

from __future__ import annotations

from constructs import Construct

from slipway.infra.build.foundation import build_alerted_foundation
from slipway.infra.build.parts import NOTHING_GIVEN, BuiltCluster, Given, built
from slipway.infra.declare.types import SageMakerCluster
from slipway.infra.patterns.network.endpoints import SAGEMAKER_SERVICES
from slipway.infra.stacks.sagemaker import SageMakerStack, SageMakerStackProps
from slipway.jobs.words.names import stack_name


def build_sagemaker_cluster(
    scope: Construct, cluster: SageMakerCluster, given: Given = NOTHING_GIVEN
) -> BuiltCluster:
    """Build all but what machines of our own would need: SageMaker brings its own, and its own log group."""
    network, storage, alerts = build_alerted_foundation(scope, cluster, SAGEMAKER_SERVICES, given)
    compute = SageMakerStack(
        scope,
        stack_name(cluster.name),
        props=SageMakerStackProps(
            cluster=cluster, network=network.network, storage=storage.storage, alerts=alerts.topic
        ),
    )
    return built((network, storage, alerts, compute), network, storage, compute)
