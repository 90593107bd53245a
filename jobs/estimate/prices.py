"""Prices an hour: instances by region and term (the catalogue), and what a cluster has around its nodes.

Each row is of one region and one day and has its source. A new rate is one row of rates.csv, a new fee one of
fees.csv, both in words/catalogue, with its line in what_is_paid. An unknown price is None, never zero.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import TypeVar

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.words.catalogue import every_type
from slipway.jobs.words.catalogue.instances import (
    CAPACITY_BLOCK,
    SAGEMAKER,
    InstanceType,
    instance_types,
    training_types,
)
from slipway.jobs.words.catalogue.instances import ON_DEMAND as ON_DEMAND
from slipway.jobs.words.catalogue.instances import SPOT as SPOT
from slipway.jobs.words.catalogue.regional import (
    DATE,
    HOURS_PER_MONTH,
    SOURCE,
    find_fee,
    rates_text,
    regional_prices,
    spot_source,
)
from slipway.jobs.words.names import checked_region

# Terms of one and three years are effective hourly prices, with all payments included.
TERMS = (ON_DEMAND, SPOT, CAPACITY_BLOCK, "1-year", "3-year")
_MOST_USD_PER_HOUR = 100_000.0
_LARGEST_FILE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Hold the price of one instance for an hour."""

    instance_type: str
    region: str
    term: str
    usd_per_hour: float
    date: str
    source: str

    def __post_init__(self) -> None:
        if not 0 < self.usd_per_hour <= _MOST_USD_PER_HOUR:
            raise CannotEstimate(
                f"usd_per_hour of {self.instance_type} is {self.usd_per_hour:g}; it must be more than 0 and "
                f"at most {_MOST_USD_PER_HOUR:,.0f}",
                hint="leave the row out where the price is not known",
            )
        if self.term not in TERMS:
            raise CannotEstimate(f"term is {self.term!r}; allowed are {', '.join(TERMS)}")
        if not (self.region and self.date):
            raise CannotEstimate(
                f"the rate of {self.instance_type} has no region or no date",
                hint="a price is of a region and a day",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """List what a cluster has besides its nodes; an instance type by itself has nothing."""

    interface_endpoints: int = 0
    nat_gateways: int = 0
    file_system: str = "none"  # as infra declares it
    file_system_gib: int | None = None  # None: billed by what is stored
    file_system_item: str = ""  # of fees.csv
    root_volume_gib: int = 0  # of each node


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Hold one line of the hourly bill."""

    name: str
    usd_per_hour: float | None
    note: str


def known_rates(overrides: Sequence[Rate] = ()) -> tuple[Rate, ...]:
    """Return the user's rates and then ours: the first match wins."""
    return (*overrides, *_our_rates())


def find_rate(
    rates: Iterable[Rate], instance_type: str, region: str | None, term: str = ON_DEMAND
) -> Rate | None:
    """Return the first rate that matches, or None; without a `region`, any region matches."""
    for rate in rates:
        if rate.instance_type == instance_type and rate.term == term and region in (None, rate.region):
            return rate
    return None


def require_rate(rates: Sequence[Rate], instance: InstanceType, region: str | None, term: str) -> Rate:
    """Return the rate for a region or term that the user named; raise if it is unknown."""
    rate = find_rate(rates, instance.name, region, term)
    if rate is not None:
        return rate
    where = f" in {checked_region(region)}" if region else ""
    # SageMaker's lists of regions are not known.
    is_listed = bool(region and instance.regions) and region in every_type.head()["regions"].split()
    if is_listed and region not in instance.regions and not instance.name.startswith(SAGEMAKER):
        raise CannotEstimate(
            f"{instance.name} is not offered in {region}; it is in {', '.join(instance.regions)}",
            hint="name one of these regions, or another type",
        )
    known = sorted({f"{each.term} in {each.region}" for each in rates if each.instance_type == instance.name})
    raise CannotEstimate(
        f"no {term} price of {instance.name}{where} is known; known are {', '.join(known) or 'none'}",
        hint=f"slipway instance refresh-prices{f' --region {region}' if region else ''}, or a row in your "
        "prices file",
    )


def what_is_paid(overheads: Overheads, region: str, nodes: int) -> tuple[Item, ...]:
    """List what is paid per hour besides the nodes."""
    lines = (
        (
            "interface endpoints",
            "interface-endpoint",
            overheads.interface_endpoints,
            "without the data through them",
        ),
        ("NAT gateway", "nat-gateway", overheads.nat_gateways, "without the data through it"),
        (
            "root volumes",
            "ebs-gp3",
            overheads.root_volume_gib * nodes,
            f"{overheads.root_volume_gib} GiB a node",
        ),
    )
    items = [_item(name, fee, region, amount, note) for name, fee, amount, note in lines if amount]
    if overheads.file_system != "none":
        items.append(_file_system(overheads, region))
    return tuple(items)


def decode_rates(text: str, where: str) -> tuple[Rate, ...]:
    """Decode a CSV of prices; every mistake names the file and the line."""
    return read_rows(text, where, [field.name for field in fields(Rate)], _decode_rate, most=_LARGEST_FILE)


def encode_rates(rates: Iterable[Rate]) -> str:
    return written_rows([field.name for field in fields(Rate)], map(asdict, rates))


@lru_cache(maxsize=1)
def _our_rates() -> tuple[Rate, ...]:
    rates = [
        Rate(
            instance_type=each.name,
            region=each.price.region,
            term=ON_DEMAND,
            usd_per_hour=each.price.usd_per_hour,
            date=each.price.date,
            source=each.price.source,
        )
        for each in (*instance_types(), *training_types())
        if each.price
    ]
    rates += decode_rates(rates_text(), "rates.csv")
    # Types that AWS names and instances.csv does not.
    head = every_type.head()
    of = {"term": ON_DEMAND, "region": head["price_region"], "date": head["price_date"]}
    for name, usd in every_type.prices():
        rates.append(Rate(instance_type=name, usd_per_hour=usd, source=head["price_source"], **of))
    # On demand in regions outside the catalogue's, and Spot in all regions.
    for row in regional_prices():
        of = {"instance_type": row.instance_type, "region": row.region, "date": DATE}
        if row.usd_per_hour is not None:
            rates.append(Rate(term=ON_DEMAND, usd_per_hour=row.usd_per_hour, source=SOURCE, **of))
        if row.spot_usd_per_hour is not None:
            rates.append(Rate(term=SPOT, usd_per_hour=row.spot_usd_per_hour, source=spot_source(row), **of))
    return tuple(rates)


def _item(name: str, fee_name: str, region: str, amount: int, note: str) -> Item:
    fee = find_fee(fee_name, region)
    if fee is None or fee.usd is None:
        return Item(name=name, usd_per_hour=None, note=f"no price in {region} is known")
    hours = 1.0 if fee.per == "hour" else HOURS_PER_MONTH
    return Item(
        name=f"{name} ({amount})" if fee.per == "hour" else name,
        usd_per_hour=amount * fee.usd / hours,
        note=f"{fee.usd:g} USD per {fee.per}, {fee.date}; {note}",
    )


def _file_system(overheads: Overheads, region: str) -> Item:
    if overheads.file_system_gib is not None:
        note = f"{overheads.file_system_gib} GiB"
        return _item(
            overheads.file_system, overheads.file_system_item, region, overheads.file_system_gib, note
        )
    fee = find_fee(overheads.file_system_item, region)
    price = (
        f"{fee.usd:g} USD per GiB-month, {fee.date}" if fee and fee.usd is not None else "at no known price"
    )
    return Item(name=overheads.file_system, usd_per_hour=None, note=f"as much as is stored, {price}")


def _decode_rate(row: Mapping[str, str | None], where: str) -> Rate:
    values = {field.name: (row.get(field.name) or "").strip() for field in fields(Rate)}
    try:
        return Rate(usd_per_hour=float(values.pop("usd_per_hour")), **values)
    except ValueError:
        raise CannotEstimate(
            f"{where}: usd_per_hour is {row.get('usd_per_hour')!r}, which is no number",
            hint="correct the row",
        ) from None
    except CannotEstimate as error:
        raise CannotEstimate(f"{where}: {error.message}", hint=error.hint or "correct the row") from None


# Reads and writes rows that people may write by hand: every mistake names the file and the line.
Row = TypeVar("Row")


def read_rows(
    text: str,
    where: str,
    columns: Sequence[str],
    decode: Callable[[Mapping[str, str | None], str], Row],
    *,
    most: int,
) -> tuple[Row, ...]:
    """Decode every line of a CSV text.

    `decode` gets a line's values, and its place as words for errors.
    """
    reader = csv.DictReader(io.StringIO(text, newline=None))
    rows: list[Row] = []
    try:
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise CannotEstimate(
                f"{where} lacks the column {', '.join(missing)}",
                hint=f"its first line must be {','.join(columns)}",
            )
        for row in reader:
            if len(rows) >= most:
                raise CannotEstimate(f"{where} has more than {most} rows", hint="is it the right file?")
            rows.append(decode(row, f"{where}, line {reader.line_num}"))
    except csv.Error as error:
        raise CannotEstimate(f"{where}, line {reader.line_num}: {error}", hint="write it as CSV") from None
    return tuple(rows)


def written_rows(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return a CSV text that read_rows reads; None is an empty value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
