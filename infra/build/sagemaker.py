"""The stacks of one cluster of SageMaker training, in the order of their deployment."""

from __future__ import annotations

import aws_cdk as cdk

from slipway.infra.declare.types import SageMakerCluster
from slipway.infra.patterns.network.endpoints import SAGEMAKER_SERVICES
from slipway.infra.stacks.alerts import AlertsStack, AlertsStackProps
from slipway.infra.stacks.network import NetworkStack, NetworkStackProps
from slipway.infra.stacks.sagemaker import SageMakerStack, SageMakerStackProps
from slipway.infra.stacks.storage import StorageStack, StorageStackProps
from slipway.jobs.core.names import stack_name


def build_sagemaker_cluster(app: cdk.App, cluster: SageMakerCluster) -> None:
    """Build all but what machines of our own would need: SageMaker brings its own, and its own log group."""
    network = NetworkStack(
        app,
        stack_name(cluster.name, "network"),
        props=NetworkStackProps(cluster=cluster, services=SAGEMAKER_SERVICES),
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
    SageMakerStack(
        app,
        stack_name(cluster.name),
        props=SageMakerStackProps(
            cluster=cluster, network=network.network, storage=storage.storage, alerts=alerts.topic
        ),
    )
