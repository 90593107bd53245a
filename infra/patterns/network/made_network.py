"""The network that a cluster makes for itself: a VPC, its flow logs, and its ways to AWS."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.network.cluster_network import ClusterNetwork
from slipway.infra.patterns.network.endpoints import (
    ENDPOINTS,
    InterfaceEndpointsProps,
    S3Endpoint,
    S3EndpointProps,
)
from slipway.infra.patterns.network.flow_logs import FlowLogs, FlowLogsProps
from slipway.infra.patterns.network.vpc import Vpc, VpcProps


def make_network(
    scope: Construct, cluster: Cluster, services: tuple[str, ...], log_key: kms.IKey
) -> ClusterNetwork:
    """Make a VPC whose nodes reach these services of AWS."""
    name = Stack.of(scope).stack_name
    vpc = Vpc(
        scope,
        "Vpc",
        props=VpcProps(name=name, cidr=cluster.vpc_cidr, zone=cluster.zone, egress=cluster.egress),
    )
    FlowLogs(
        scope,
        "FlowLogs",
        props=FlowLogsProps(
            vpc_id=vpc.vpc_id,
            key=log_key,
            retention_days=cluster.log_retention_days,
            keep=cluster.keep_data,
        ),
    )
    S3Endpoint(scope, "S3Endpoint", props=S3EndpointProps(region=cluster.region, vpc=vpc))
    endpoints = InterfaceEndpointsProps(region=cluster.region, vpc=vpc, services=services)
    return ClusterNetwork(
        vpc=vpc,
        endpoint_security_group_id=ENDPOINTS[cluster.egress](scope, "Endpoints", endpoints),
        log_key=log_key,
    )
