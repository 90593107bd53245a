"""How nodes are bought, as a launch template says it. A new market is one row of MARKETS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2

from slipway.infra.declare.types import BatchCluster, Cluster, Market
from slipway.jobs.words.errors import SlipwayError

_Reservation = ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty
_Target = ec2.CfnLaunchTemplate.CapacityReservationTargetProperty
_MarketOptions = ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    reservation: _Reservation
    market_options: _MarketOptions | None = None
    is_spot: bool = False  # jobs have to listen for the notice of an interruption
    # Nodes of a capacity block are close to each other already, and EC2 takes no placement group for them.
    in_placement_group: bool = True
    # AWS PCS starts nodes of a capacity block only from a template that names the type.
    names_type: bool = False


def purchase(cluster: Cluster) -> Purchase:
    if isinstance(cluster, BatchCluster) and cluster.market is Market.SPOT:
        raise SlipwayError(
            f"market is {cluster.market}, but AWS Batch does not run multi-node jobs on Spot instances",
            hint="choose Market.ON_DEMAND, or a reservation",
        )
    return MARKETS[cluster.market](cluster.reservation_id)


def _targeted(reservation_id: str | None) -> _Reservation:
    assert reservation_id, "a targeted reservation is checked to have its id"
    return _Reservation(capacity_reservation_target=_Target(capacity_reservation_id=reservation_id))


MARKETS: Mapping[Market, Callable[[str | None], Purchase]] = {
    # Without "none" EC2 would use up an open reservation that somebody else in the account counts on.
    Market.ON_DEMAND: lambda _: Purchase(reservation=_Reservation(capacity_reservation_preference="none")),
    # Interrupted with two minutes' notice, which the launcher in containers/runtime watches for.
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
