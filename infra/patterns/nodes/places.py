"""Where the nodes of a cluster stand: one subnet of one zone, and the security group around them."""

from __future__ import annotations

from dataclasses import dataclass

from constructs import Construct

from slipway.infra.declare.types import Egress
from slipway.infra.patterns.network.security_groups import (
    MountRules,
    MountRulesProps,
    NodeSecurityGroup,
    NodeSecurityGroupProps,
)
from slipway.infra.patterns.storage.file_systems import SharedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceProps:
    region: str
    zone: str
    vpc_id: str
    subnet_id: str
    egress: Egress
    endpoint_security_group_id: str | None


def node_security_group(
    stack: Construct, place: PlaceProps, files: SharedFiles | None, ssh_cidrs: tuple[str, ...] = ()
) -> str:
    """Its id. It lets nodes reach each other, AWS and the shared files."""
    group = NodeSecurityGroup(
        stack,
        "Nodes",
        props=NodeSecurityGroupProps(
            vpc_id=place.vpc_id,
            region=place.region,
            egress=place.egress,
            endpoint_security_group_id=place.endpoint_security_group_id,
            ssh_cidrs=ssh_cidrs,
        ),
    )
    if files is not None:
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
