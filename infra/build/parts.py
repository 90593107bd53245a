"""What a cluster is built on, where it is the user's own, and what an app may go on with."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from slipway.infra.patterns.network.cluster_network import ClusterNetwork, NetworkOf
from slipway.infra.patterns.network.made_network import make_network
from slipway.infra.patterns.storage.cluster_storage import BucketOf, ClusterStorage, make_bucket


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
