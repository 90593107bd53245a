"""The network of a cluster: one zone, private nodes, AWS reached through endpoints or a NAT gateway."""

from __future__ import annotations

from dataclasses import dataclass

from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.access.ownership import add_ownership
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.network.cluster_network import ClusterNetwork
from slipway.infra.patterns.network.endpoints import (
    ENDPOINTS,
    InterfaceEndpointsProps,
    S3Endpoint,
    S3EndpointProps,
)
from slipway.infra.patterns.network.flow_logs import FlowLogs, FlowLogsProps
from slipway.infra.patterns.network.vpc import Vpc, VpcProps
from slipway.infra.patterns.nodes.image_parameter import require_node_image
from slipway.infra.patterns.storage.encryption import EncryptionKey, EncryptionKeyProps, KeyUser


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStackProps:
    cluster: Cluster
    services: tuple[str, ...]  # of AWS, which the nodes call


class NetworkStack(DeclaredStack):
    """Makes the logs' own key first, so that flow logs exist before anything that holds data."""

    def __init__(self, scope: Construct, id: str, *, props: NetworkStackProps) -> None:
        cluster = props.cluster
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        add_ownership(self, cluster.name)
        require_node_image(self, cluster)
        log_key = EncryptionKey(
            self,
            "LogKey",
            props=EncryptionKeyProps(
                description=f"Logs and alerts of Slipway cluster {cluster.name}",
                region=cluster.region,
                users=(KeyUser.LOGS, KeyUser.ALARMS, KeyUser.EVENTS),
                keep=cluster.keep_data,
            ),
        ).key
        vpc = Vpc(
            self,
            "Vpc",
            props=VpcProps(name=id, cidr=cluster.vpc_cidr, zone=cluster.zone, egress=cluster.egress),
        )
        FlowLogs(
            self,
            "FlowLogs",
            props=FlowLogsProps(
                vpc_id=vpc.vpc_id,
                key=log_key,
                retention_days=cluster.log_retention_days,
                keep=cluster.keep_data,
            ),
        )
        S3Endpoint(self, "S3Endpoint", props=S3EndpointProps(region=cluster.region, vpc=vpc))
        endpoints = InterfaceEndpointsProps(region=cluster.region, vpc=vpc, services=props.services)
        self.network: ClusterNetwork = ClusterNetwork(
            vpc=vpc,
            endpoint_security_group_id=ENDPOINTS[cluster.egress](self, "Endpoints", endpoints),
            log_key=log_key,
        )
