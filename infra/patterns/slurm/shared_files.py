"""What the machines of a Slurm cluster share: a home for all, and a scratch where one is declared."""

from __future__ import annotations

from collections.abc import Mapping

from constructs import Construct

from slipway.infra.declare.types import SlurmCluster
from slipway.infra.patterns.network.cluster_network import ClusterNetwork
from slipway.infra.patterns.network.security_groups import MountRules, MountRulesProps
from slipway.infra.patterns.nodes.boot import mounted
from slipway.infra.patterns.nodes.node_network import node_security_group
from slipway.infra.patterns.storage.file_systems import SharedFiles


def slurm_security_group(
    scope: Construct,
    cluster: SlurmCluster,
    *,
    network: ClusterNetwork,
    home: SharedFiles,
    scratch: SharedFiles | None,
) -> str:
    """Make the group of nodes and controller: AWS PCS wants its own interface to reach them, and they it."""
    group = node_security_group(scope, cluster, network=network, files=home)
    if scratch is not None:
        MountRules(
            scope,
            "ScratchRules",
            props=MountRulesProps(
                node_group_id=group,
                file_system_group_id=scratch.security_group_id,
                ports=scratch.ports,
                calls_back=scratch.calls_back,
            ),
        )
    return group


def scratch_mount(scratch: SharedFiles | None) -> str | None:
    return scratch.mount_point if scratch else None


def scratch_parameters(scratch: SharedFiles | None) -> Mapping[str, object]:
    """Return what a first boot reads of the scratch."""
    mount = {"scratch_mount": scratch_mount(scratch)}
    return {"scratch_files": mounted(scratch), **mount} if scratch else mount
