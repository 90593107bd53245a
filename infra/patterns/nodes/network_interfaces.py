"""The network interfaces of a node: one EFA interface for each network card, in order."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2

from slipway.infra.declare.types import Cluster
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError

Interface = ec2.CfnLaunchTemplate.NetworkInterfaceProperty


def efa_interface_count(cluster: Cluster) -> int:
    """Count the EFA interfaces of a node: as declared, or as many as the type has.

    One that is left closed is bandwidth paid for and not used.
    """
    asked, type_ = cluster.efa_interfaces, instance_type(cluster.instance_type)
    most = type_.efa_interfaces
    if asked is None:
        return most
    if not 0 <= asked <= most:
        raise SlipwayError(
            f"efa_interfaces is {asked}, but {type_.name} has {most or 'no EFA'}; allowed are 0 to {most}",
            hint="leave efa_interfaces out to use all; `slipway instances` lists types that have EFA",
        )
    return asked


def network_interfaces(*, efa_interfaces: int, security_group_id: str) -> list[Interface]:
    """Return one EFA interface a card, or one plain interface for a node without EFA."""
    if not efa_interfaces:
        return [_interface(0, "interface", security_group_id)]
    return [_interface(card, "efa", security_group_id) for card in range(efa_interfaces)]


def _interface(card: int, sort: str, security_group_id: str) -> Interface:
    return Interface(
        network_card_index=card,
        # Device 0 of card 0 carries the default route; on every other card it is device 1 (EC2 user guide,
        # "Maximize network bandwidth on Amazon EC2 instances with multiple network cards").
        device_index=0 if card == 0 else 1,
        interface_type=sort,
        groups=[security_group_id],
        delete_on_termination=True,
        # EC2 refuses to assign a public address to an instance with several interfaces; asking for none
        # always holds.
        associate_public_ip_address=False if card == 0 else None,
    )
