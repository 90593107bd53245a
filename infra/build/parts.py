"""What a cluster is built on, where it is the user's own, and what an app may go on with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from slipway.infra.patterns.network.cluster_network import ClusterNetwork, NetworkOf
from slipway.infra.patterns.network.made_network import make_network
from slipway.infra.patterns.storage.cluster_storage import BucketOf, ClusterStorage, make_bucket
from slipway.infra.stacks.network import NetworkStack
from slipway.infra.stacks.storage import StorageStack


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Says where network and bucket come from: the cluster makes its own, or they are the user's."""

    network: NetworkOf = make_network
    bucket: BucketOf = make_bucket


NOTHING_GIVEN = Given()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCluster:
    stacks: tuple[Stack, ...]  # in the order of their deployment
    network: ClusterNetwork
    storage: ClusterStorage
    security_group_id: str  # of the nodes
    job_role: iam.IRole  # which jobs have


class HoldsNodes(Protocol):
    @property
    def security_group_id(self) -> str: ...

    @property
    def job_role(self) -> iam.IRole: ...


def built(
    stacks: tuple[Stack, ...], network: NetworkStack, storage: StorageStack, nodes: HoldsNodes
) -> BuiltCluster:
    """Name what every kind of cluster has, of the stacks that hold it."""
    return BuiltCluster(
        stacks=stacks,
        network=network.network,
        storage=storage.storage,
        security_group_id=nodes.security_group_id,
        job_role=nodes.job_role,
    )
