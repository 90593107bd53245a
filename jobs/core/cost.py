"""What a job costs, by the catalogue's dated price on demand of its nodes; None is unknown, never nothing."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.core.instances import Price

_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    usd: float | None
    node_hours: float | None
    price: Price | None


def cost(nodes: int | None, seconds: float | None, price: Price | None) -> Cost:
    if nodes is None or seconds is None:
        return Cost(usd=None, node_hours=None, price=price)
    node_hours = nodes * seconds / _SECONDS_PER_HOUR
    usd = round(node_hours * price.usd_per_hour, 2) if price else None
    return Cost(usd=usd, node_hours=round(node_hours, 4), price=price)
