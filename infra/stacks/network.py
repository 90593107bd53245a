"""The network of a cluster: one zone, private nodes, AWS reached through endpoints or a NAT gateway.

If a VPC is given, all of this is its owner's, and the stack only holds the key of the logs.
"""

from __future__ import annotations

from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.access.records import add_ownership
from slipway.infra.patterns.declared_stack import DeclaredStack, project_of
from slipway.infra.patterns.encryption import EncryptionKey, KeyUser
from slipway.infra.patterns.network.vpc import ClusterNetwork, NetworkOf
from slipway.infra.patterns.nodes.launch_template import require_node_image


class NetworkStack(DeclaredStack):
    """Makes the logs' own key first, so that flow logs exist before anything that holds data."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: Cluster,
        network: NetworkOf,
    ) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        add_ownership(self, cluster.name, project_of(scope))
        require_node_image(self, cluster)
        log_key = EncryptionKey(
            self,
            "LogKey",
            description=f"Logs and alerts of Slipway cluster {cluster.name}",
            region=cluster.region,
            users=(KeyUser.LOGS, KeyUser.ALARMS, KeyUser.EVENTS),
            keep=cluster.keep_data,
        ).key
        self.network: ClusterNetwork = network(self, cluster, log_key)
