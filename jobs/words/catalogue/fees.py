"""What AWS bills besides instances, by region and day: fees.csv. What nobody wrote down is None, never zero.

A new fee is one row, with its source. Where a month is billed it has 730 hours, as in AWS's own calculator.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fee:
    """Hold the price of something that a cluster has besides its nodes."""

    item: str
    region: str
    usd: float | None  # None: no source is known
    per: str  # hour, month, gib-month
    date: str
    source: str

    @property
    def usd_per_month(self) -> float | None:
        """Return the price of a month; that of a GiB where amounts are billed."""
        hours = HOURS_PER_MONTH if self.per == "hour" else 1.0
        return None if self.usd is None else self.usd * hours


def find_fee(item: str, region: str) -> Fee | None:
    return next((fee for fee in our_fees() if (fee.item, fee.region) == (item, region)), None)


@lru_cache(maxsize=1)
def our_fees() -> tuple[Fee, ...]:
    text = Path(__file__).with_name("fees.csv").read_text(encoding="utf-8")
    return tuple(
        Fee(**{**row, "usd": float(row["usd"]) if row["usd"] else None})  # type: ignore[arg-type]  # texts all
        for row in csv.DictReader(text.splitlines())
    )
