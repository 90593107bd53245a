"""What a job costs, by the catalogue's dated price on demand of its nodes; None is unknown, never nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipway.jobs.words.catalogue.instances import Price
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import printable

UNKNOWN = "unknown"
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    usd: float | None
    node_hours: float | None
    price: Price | None

    @property
    def words(self) -> str:
        if self.usd is None or self.price is None:
            hours = UNKNOWN if self.node_hours is None else f"{self.node_hours:g}"
            return f"an amount that is not known ({hours} node-hours at no known price)"
        price = f"{self.price.usd_per_hour} USD on demand, {self.price.region}, {self.price.date}"
        return f"up to {self.usd:.2f} USD ({self.node_hours:g} node-hours at {price})"


class NoAmount(SlipwayError):
    """The user agreed to something that is not an amount of money."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """Holds what a job may cost without asking the user."""

    usd: float = 100.0
    is_unknown_fine: bool = False  # a job without a known price

    def __post_init__(self) -> None:
        if not (math.isfinite(self.usd) and self.usd > 0):
            raise NoAmount(
                f"--confirm-cost: is {self.usd:g}; give dollars above 0, or '{UNKNOWN}'", hint=_HINT
            )

    def covers(self, ceiling: Cost) -> bool:
        return self.is_unknown_fine if ceiling.usd is None else ceiling.usd <= self.usd


AGREED_UNSAID = Agreed()
_HINT = "say what the job may cost at most"


def parse_agreed(text: str) -> Agreed:
    """Parse an amount in USD, or the word 'unknown' for jobs without a known price."""
    if text == UNKNOWN:
        return Agreed(is_unknown_fine=True)
    try:
        return Agreed(usd=float(text))
    except ValueError:
        raise NoAmount(
            f"--confirm-cost: '{printable(text)}' is not an amount; give dollars above 0, or '{UNKNOWN}'",
            hint=_HINT,
        ) from None


def cost(nodes: int | None, seconds: float | None, price: Price | None) -> Cost:
    if nodes is None or seconds is None:
        return Cost(usd=None, node_hours=None, price=price)
    node_hours = nodes * seconds / SECONDS_PER_HOUR
    usd = round(node_hours * price.usd_per_hour, 2) if price else None
    return Cost(usd=usd, node_hours=round(node_hours, 4), price=price)
