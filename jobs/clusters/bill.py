"""What a cluster costs an hour, and a month while nothing runs, as far as the catalogue's dated prices go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.infra.declare.types import Cluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.deployed import DeployedStack
from slipway.jobs.cloud.templates import Templates
from slipway.jobs.clusters.standing import StandingItem, standing_items, total_usd_per_month
from slipway.jobs.words.catalogue.instances import Price, instance_type
from slipway.jobs.words.catalogue.regional import price_in

# Paid for whether nodes run or not.
_PAID_AHEAD = ("open-reservation", "targeted-reservation", "capacity-block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Holds on-demand prices of the nodes, and what stands around them; None is unknown, never free."""

    price: Price | None
    usd_per_hour_now: float | None
    usd_per_hour_full: float | None
    usd_per_month_idle: float | None  # of what is deployed, without what is stored
    not_counted: tuple[str, ...]


def bill(cluster: Cluster, templates: Templates | Unanswered, running_nodes: int | Unanswered) -> Bill:
    price = price_in(instance_type(cluster.instance_type), cluster.region)
    each = price.usd_per_hour if price else None
    running = None if isinstance(running_nodes, Unanswered) else running_nodes
    items = None if isinstance(templates, Unanswered) else standing_items(templates, cluster.region)
    return Bill(
        price=price,
        usd_per_hour_now=_times(running, each),
        usd_per_hour_full=_times(cluster.max_nodes, each),
        usd_per_month_idle=None if items is None else total_usd_per_month(items),
        not_counted=_not_counted(cluster, items, running),
    )


def count_resources(stacks: Sequence[DeployedStack] | Unanswered) -> Mapping[str, int] | None:
    """Count the resources of all stacks together; None if those of one are unknown."""
    if isinstance(stacks, Unanswered) or any(stack.resources is None for stack in stacks):
        return None
    total: Counter[str] = Counter()
    for stack in stacks:
        total.update(stack.resources or {})
    return dict(sorted(total.items()))


def _times(count: int | None, usd: float | None) -> float | None:
    """Multiply; zero nodes cost nothing even if the price is unknown."""
    if count == 0:
        return 0.0
    return None if count is None or usd is None else round(count * usd, 4)


def _not_counted(
    cluster: Cluster, items: Sequence[StandingItem] | None, running: int | None
) -> tuple[str, ...]:
    if items is None:
        return ("whatever else is deployed",)
    counts: Counter[str] = Counter()
    for item in items:
        if item.usd_per_month is None:
            counts[item.item] += item.count
    billed = [f"{words} ({count})" for words, count in sorted(counts.items())]
    volumes = ["EBS volumes of running nodes"] if running else []
    reservation = [f"the {cluster.market}, billed even when idle"] if cluster.market in _PAID_AHEAD else []
    return (*billed, *volumes, *reservation)
