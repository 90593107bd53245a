"""The base of a cluster's own stack: the parts that the stacks before it have made or found."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_sns as sns

from slipway.infra.patterns.encryption import EncryptedLogGroup
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.storage.buckets import ClusterStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    network: ClusterNetwork
    storage: ClusterStorage
    alerts: sns.ITopic

    @property
    def subnet_id(self) -> str:
        """Return the one subnet in which the cluster's machines are."""
        return self.network.vpc.private_subnet_id


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFoundation(Foundation):
    """Also holds the cluster's log group for jobs' output, for clusters with nodes of our own."""

    job_logs: EncryptedLogGroup
