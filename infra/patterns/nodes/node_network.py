"""The security group around the nodes of a cluster, and the rules by which they mount its shared files."""

from __future__ import annotations

from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.network.cluster_network import ClusterNetwork
from slipway.infra.patterns.network.security_groups import (
    MountRules,
    MountRulesProps,
    NodeSecurityGroup,
    NodeSecurityGroupProps,
)
from slipway.infra.patterns.storage.file_systems import SharedFiles


def node_security_group(
    stack: Construct,
    cluster: Cluster,
    *,
    network: ClusterNetwork,
    files: SharedFiles,
    ssh_cidrs: tuple[str, ...] = (),
) -> str:
    """Make the group that lets nodes reach each other, AWS and the shared files; return its id."""
    group = NodeSecurityGroup(
        stack,
        "Nodes",
        props=NodeSecurityGroupProps(
            cluster=cluster,
            vpc_id=network.vpc.vpc_id,
            endpoint_security_group_id=network.endpoint_security_group_id,
            ssh_cidrs=ssh_cidrs,
        ),
    )
    MountRules(
        stack,
        "MountRules",
        props=MountRulesProps(
            node_group_id=group.group_id,
            file_system_group_id=files.security_group_id,
            ports=files.ports,
            calls_back=files.calls_back,
        ),
    )
    return group.group_id
