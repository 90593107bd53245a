"""The network of a cluster: one zone, private nodes, AWS reached through endpoints or a NAT gateway."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Environment, Stack
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.declare.types import Egress
from slipway.infra.patterns.network.endpoints import (
    ENDPOINTS,
    InterfaceEndpointsProps,
    S3Endpoint,
    S3EndpointProps,
)
from slipway.infra.patterns.network.flow_logs import FlowLogs, FlowLogsProps
from slipway.infra.patterns.network.vpc import Vpc, VpcProps
from slipway.infra.patterns.storage.encryption import EncryptionKey, EncryptionKeyProps, KeyUser


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkProps:
    cluster: str
    stack_name: str
    env: Environment
    region: str
    zone: str
    cidr: str
    egress: Egress
    services: tuple[str, ...]  # what nodes call
    log_retention_days: int
    keep_data: bool


class NetworkStack(Stack):
    """Logs have a key of their own, made first: flow logs are there before anything that holds data."""

    def __init__(self, scope: Construct, id: str, *, props: NetworkProps) -> None:
        super().__init__(scope, id, stack_name=props.stack_name, env=props.env)
        self.log_key: kms.IKey = EncryptionKey(
            self,
            "LogKey",
            props=EncryptionKeyProps(
                description=f"Logs and alerts of Slipway cluster {props.cluster}",
                region=props.region,
                users=(KeyUser.LOGS, KeyUser.ALARMS, KeyUser.EVENTS),
                keep=props.keep_data,
            ),
        ).key
        self.vpc = Vpc(
            self,
            "Vpc",
            props=VpcProps(name=props.stack_name, cidr=props.cidr, zone=props.zone, egress=props.egress),
        )
        FlowLogs(
            self,
            "FlowLogs",
            props=FlowLogsProps(
                vpc_id=self.vpc.vpc_id,
                key=self.log_key,
                retention_days=props.log_retention_days,
                keep=props.keep_data,
            ),
        )
        S3Endpoint(self, "S3Endpoint", props=S3EndpointProps(region=props.region, vpc=self.vpc))
        self.endpoint_security_group_id = ENDPOINTS[props.egress](
            self,
            "Endpoints",
            InterfaceEndpointsProps(region=props.region, vpc=self.vpc, services=props.services),
        )
