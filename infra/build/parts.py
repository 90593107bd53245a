"""The parts of a cluster: those that may be the user's own, those that all kinds share, those for an app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.foundation import Foundation, NodeFoundation
from slipway.infra.patterns.network.given_network import make_network
from slipway.infra.patterns.network.vpc import ClusterNetwork, NetworkOf
from slipway.infra.patterns.observability.alarms import Stuck
from slipway.infra.patterns.storage.buckets import BucketOf, ClusterStorage, make_bucket
from slipway.infra.stacks.network import NetworkStack
from slipway.infra.stacks.observability import AlertsStack, ObservabilityStack
from slipway.infra.stacks.storage import StorageStack
from slipway.jobs.words.names import stack_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Holds the network and bucket of the user's; without them the cluster makes its own."""

    network: NetworkOf = make_network
    bucket: BucketOf = make_bucket


NOTHING_GIVEN = Given()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCluster:
    stacks: tuple[Stack, ...]  # in the order of their deployment
    network: ClusterNetwork
    storage: ClusterStorage
    security_group_id: str  # of the nodes
    job_role: iam.IRole  # the role of jobs


class ComputeStack(Protocol):
    """Describes a kind's own stack, which is the last to be deployed."""

    @property
    def security_group_id(self) -> str: ...

    @property
    def job_role(self) -> iam.IRole: ...


class BaseStacks:
    """Makes the stacks on which a cluster of every kind is based."""

    def __init__(self, scope: Construct, cluster: Cluster, given: Given) -> None:
        self._scope, self._cluster = scope, cluster
        self.network = NetworkStack(
            scope,
            stack_name(cluster.name, "network"),
            cluster=cluster,
            network=given.network,
        )
        self.storage = StorageStack(
            scope,
            stack_name(cluster.name, "storage"),
            cluster=cluster,
            network=self.network.network,
            bucket=given.bucket,
        )

    def add_observability(self, stuck: Stuck) -> tuple[ObservabilityStack, NodeFoundation]:
        """Watch nodes of our own; `stuck` makes what tells why jobs do not run."""
        made = ObservabilityStack(
            self._scope,
            stack_name(self._cluster.name, "observability"),
            cluster=self._cluster,
            network=self.network.network,
            stuck=stuck,
        )
        return made, NodeFoundation(
            network=self.network.network,
            storage=self.storage.storage,
            alerts=made.alerts,
            job_logs=made.job_logs,
        )

    def add_alerts(self) -> tuple[AlertsStack, Foundation]:
        """Make the destination of alarms, for machines of SageMaker, which watches them itself."""
        made = AlertsStack(
            self._scope,
            stack_name(self._cluster.name, "observability"),
            cluster=self._cluster,
            network=self.network.network,
        )
        return made, Foundation(
            network=self.network.network, storage=self.storage.storage, alerts=made.alerts
        )

    def built(self, *others: Stack, nodes: ComputeStack) -> BuiltCluster:
        """Return the parts that every kind of cluster has, with the stacks that hold them."""
        return BuiltCluster(
            stacks=(self.network, self.storage, *others),
            network=self.network.network,
            storage=self.storage.storage,
            security_group_id=nodes.security_group_id,
            job_role=nodes.job_role,
        )
