"""The stacks of one cluster of SageMaker training, in the order of their deployment."""

from __future__ import annotations

import aws_cdk as cdk

from slipway.infra.build.foundation import build_alerted_foundation
from slipway.infra.declare.types import SageMakerCluster
from slipway.infra.patterns.network.endpoints import SAGEMAKER_SERVICES
from slipway.infra.stacks.sagemaker import SageMakerStack, SageMakerStackProps
from slipway.jobs.core.names import stack_name


def build_sagemaker_cluster(app: cdk.App, cluster: SageMakerCluster) -> None:
    """Build all but what machines of our own would need: SageMaker brings its own, and its own log group."""
    network, storage, alerts = build_alerted_foundation(app, cluster, SAGEMAKER_SERVICES)
    SageMakerStack(
        app,
        stack_name(cluster.name),
        props=SageMakerStackProps(
            cluster=cluster, network=network.network, storage=storage.storage, alerts=alerts.topic
        ),
    )
