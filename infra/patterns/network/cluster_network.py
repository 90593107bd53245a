"""What the network stack of a cluster makes, or finds, for the cluster's other stacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.network.vpc import NodeVpc


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNetwork:
    vpc: NodeVpc
    endpoint_security_group_id: str | None  # None: AWS is reached through a NAT gateway
    log_key: kms.IKey


# Takes the services of AWS that nodes call, and the key of the cluster's logs.
NetworkOf = Callable[[Construct, Cluster, tuple[str, ...], kms.IKey], ClusterNetwork]
