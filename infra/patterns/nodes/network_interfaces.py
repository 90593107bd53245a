"""The network interfaces of a node: one EFA interface for each network card that takes it, in order.

Also its security group, and its market: a new one is one row of MARKETS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from slipway.infra.declare.types import BatchCluster, Cluster, Market, SlurmCluster
from slipway.infra.patterns.foundation import Foundation
from slipway.infra.patterns.network.security_groups import NodeSecurityGroup
from slipway.infra.patterns.storage.file_systems import MountRules
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type
from slipway.jobs.words.errors import SlipwayError

Interface = ec2.CfnLaunchTemplate.NetworkInterfaceProperty


def efa_interface_count(cluster: Cluster) -> int:
    """Count the EFA interfaces of a node: as declared, or as many as the type has.

    Bandwidth of an interface that is not opened is paid for and not used.
    """
    asked, type_ = cluster.efa_interfaces, instance_type(cluster.instance_type)
    most = type_.efa_interfaces
    if asked is None:
        return most
    if not 0 <= asked <= most:
        raise SlipwayError(
            f"efa_interfaces is {asked}, but {type_.name} has {most or 'no EFA'}; allowed are 0 to {most}",
            hint="leave efa_interfaces out to use all; `slipway instance list` lists types that have EFA",
        )
    return asked


def network_interfaces(
    type_: InstanceType, *, efa_interfaces: int, security_group_id: str
) -> list[Interface]:
    """Return the interface with the node's one address on card 0, and EFA on the requested number of cards.

    Card 0 carries EFA and its address if it has EFA ("efa"); every further card has EFA alone ("efa-only"),
    without an address (EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple
    network cards": use case 1 of P5, "save IP addresses and avoid potential Linux IP issues"). The guide's
    newest form has an "interface" and an "efa-only" on card 0, too. A card of P5 and Trn2 takes two
    interfaces, and the second one of card 0 is for the container of AWS Batch, so both are one here.
    """
    first = "efa" if efa_interfaces and type_.first_efa_card == 0 else "interface"
    further = type_.first_efa_card + efa_interfaces - 1 if efa_interfaces else 0
    return [
        Interface(
            network_card_index=card,
            # Each is the first of its card (the same guide): a card of hpc6id takes no second one.
            device_index=0,
            interface_type=sort,
            groups=[security_group_id],
            delete_on_termination=True,
            # EC2 refuses to assign a public address to an instance with several interfaces; requesting none
            # always works.
            associate_public_ip_address=False if card == 0 else None,
        )
        for card, sort in enumerate((first, *["efa-only"] * further))
    ]


# The security group of a cluster's nodes, and the rules by which they mount its shared files.


def node_security_group(
    stack: Construct, cluster: Cluster, base: Foundation, *, ssh_cidrs: tuple[str, ...] = ()
) -> str:
    """Make the group that lets nodes reach each other, AWS and the shared files; return its id."""
    group = NodeSecurityGroup(stack, "Nodes", cluster=cluster, network=base.network, ssh_cidrs=ssh_cidrs)
    MountRules(stack, "MountRules", nodes=group.group_id, files=base.storage.files)
    return group.group_id


# How a launch template buys nodes. A new market is one row of MARKETS.
_Reservation = ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty
_Target = ec2.CfnLaunchTemplate.CapacityReservationTargetProperty
_MarketOptions = ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    reservation: _Reservation
    market_options: _MarketOptions | None = None
    is_spot: bool = False  # True: jobs have to watch for the notice of an interruption
    # Nodes of a capacity block are close to each other already, and EC2 accepts no placement group for them.
    in_placement_group: bool = True
    # AWS PCS starts nodes of a capacity block only from a template that names the type.
    names_type: bool = False


def purchase(cluster: Cluster) -> Purchase:
    if isinstance(cluster, BatchCluster) and cluster.market is Market.SPOT:
        raise SlipwayError(
            f"market is {cluster.market}, but AWS Batch does not run multi-node jobs on Spot instances",
            hint="choose Market.ON_DEMAND, or a reservation",
        )
    bought = MARKETS[cluster.market](cluster.reservation_id)
    # AWS PCS takes Spot from its node group, and EC2's fleets refuse a template that names it, too.
    is_told_by_pcs = isinstance(cluster, SlurmCluster) and cluster.market is Market.SPOT
    return replace(bought, market_options=None) if is_told_by_pcs else bought


def placement_group(scope: Construct, cluster: Cluster) -> str | None:
    """Make the group that keeps nodes close; return None if a capacity block does."""
    if not purchase(cluster).in_placement_group:
        return None
    return ec2.CfnPlacementGroup(scope, "PlacementGroup", strategy="cluster").ref


def capacity_block_of(cluster: Cluster) -> str | None:
    """Return the id of the nodes' capacity block; None if they are bought otherwise."""
    return cluster.reservation_id if cluster.market is Market.CAPACITY_BLOCK else None


def _targeted(reservation_id: str | None) -> _Reservation:
    assert reservation_id, "a targeted reservation is checked to have its id"
    return _Reservation(capacity_reservation_target=_Target(capacity_reservation_id=reservation_id))


MARKETS: Mapping[Market, Callable[[str | None], Purchase]] = {
    # Without "none" EC2 would use up an open reservation that somebody else in the account counts on.
    Market.ON_DEMAND: lambda _: Purchase(reservation=_Reservation(capacity_reservation_preference="none")),
    # Interrupted at two minutes' notice, for which the launcher in containers/runtime watches.
    Market.SPOT: lambda _: Purchase(
        reservation=_Reservation(capacity_reservation_preference="none"),
        market_options=_MarketOptions(market_type="spot"),
        is_spot=True,
    ),
    Market.OPEN_RESERVATION: lambda _: Purchase(
        reservation=_Reservation(capacity_reservation_preference="open")
    ),
    Market.TARGETED_RESERVATION: lambda reservation_id: Purchase(reservation=_targeted(reservation_id)),
    Market.CAPACITY_BLOCK: lambda reservation_id: Purchase(
        reservation=_targeted(reservation_id),
        market_options=_MarketOptions(market_type="capacity-block"),
        in_placement_group=False,
        names_type=True,
    ),
}
