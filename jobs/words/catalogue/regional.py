"""Reads prices outside us-east-1 and of Spot from regions.csv, and fees from fees.csv; missing ones are
unknown.

A price is a row for its type and region. rates.csv has those of other terms, such as capacity blocks.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from slipway.jobs.words.catalogue.instances import SPOT, InstanceType, Price

# The source has no date. It lists p6-b300, which AWS launched on this day.
DATE = "2025-11-18 or later"
SOURCE = "skypilot-org/skypilot-catalog@00148f2a:catalogs/v8/aws/vms.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionalPrice:
    """Hold the hourly price of a type in a region; for Spot, that of the cheapest zone."""

    instance_type: str
    region: str
    usd_per_hour: float | None
    spot_usd_per_hour: float | None
    spot_zone: str


@lru_cache(maxsize=1)
def regional_prices() -> tuple[RegionalPrice, ...]:
    """Return the rows of regions.csv, us-east-1 first for each type."""
    text = Path(__file__).with_name("regions.csv").read_text(encoding="utf-8")
    return tuple(
        RegionalPrice(
            instance_type=row["instance_type"],
            region=row["region"],
            usd_per_hour=_number(row["usd_per_hour"]),
            spot_usd_per_hour=_number(row["spot_usd_per_hour"]),
            spot_zone=row["spot_zone"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def price_in(instance: InstanceType, region: str) -> Price | None:
    """Return the on-demand price of a type in a region; None if unknown."""
    if instance.price is not None and instance.price.region == region:
        return instance.price
    for row in regional_prices():
        if (row.instance_type, row.region) == (instance.name, region) and row.usd_per_hour is not None:
            return Price(usd_per_hour=row.usd_per_hour, region=region, date=DATE, source=SOURCE)
    return None


def price_by_term(instance: InstanceType, region: str, term: str) -> Price | None:
    """Return the price of a type for a term other than on-demand; None if unknown."""
    if term == SPOT:
        for row in regional_prices():
            if (row.instance_type, row.region) == (instance.name, region) and row.spot_usd_per_hour:
                usd, source = row.spot_usd_per_hour, spot_source(row)
                return Price(usd_per_hour=usd, region=region, date=DATE, source=source, term=SPOT)
        return None
    asked = (instance.name, region, term)
    for line in csv.DictReader(rates_text().splitlines()):
        if (line.pop("instance_type"), line["region"], line["term"]) == asked:
            return Price(**{**line, "usd_per_hour": float(line["usd_per_hour"])})  # type: ignore[arg-type]  # texts
    return None


def spot_source(row: RegionalPrice) -> str:
    return f"{SOURCE}, zone {row.spot_zone}, the cheapest of the region's"


def rates_text() -> str:
    return Path(__file__).with_name("rates.csv").read_text(encoding="utf-8")


def _number(text: str) -> float | None:
    return float(text) if text else None


# What AWS bills besides instances, by region and day, from fees.csv. A missing fee is None, never zero. A new
# fee is one row with its source. A month has 730 hours, as in AWS's own calculator.
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
        """Return the monthly price; for a fee by amount, that of one GiB."""
        hours = HOURS_PER_MONTH if self.per == "hour" else 1.0
        return None if self.usd is None else self.usd * hours


def lustre_item(mbps_per_tib: object) -> str:
    """Return the item of fees.csv for FSx for Lustre of this throughput."""
    return f"fsx-lustre-{mbps_per_tib}"


def find_fee(item: str, region: str) -> Fee | None:
    return next((fee for fee in our_fees() if (fee.item, fee.region) == (item, region)), None)


@lru_cache(maxsize=1)
def our_fees() -> tuple[Fee, ...]:
    text = Path(__file__).with_name("fees.csv").read_text(encoding="utf-8")
    return tuple(
        Fee(**{**row, "usd": float(row["usd"]) if row["usd"] else None})  # type: ignore[arg-type]  # texts all
        for row in csv.DictReader(text.splitlines())
    )
