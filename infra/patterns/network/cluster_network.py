"""What the network stack of a cluster makes for the cluster's other stacks."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_kms as kms

from slipway.infra.patterns.network.vpc import Vpc


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNetwork:
    vpc: Vpc
    endpoint_security_group_id: str | None  # None: AWS is reached through the NAT gateway
    log_key: kms.IKey
