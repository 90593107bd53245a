"""Instance types: `slipway instance list` shows the catalogue, `prices` what nodes cost an hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import TypedDict, Unpack

import click

from slipway.jobs.cli.completing import complete_type
from slipway.jobs.cli.options import finite
from slipway.jobs.estimate.inputs.own_data import PRICES, REFRESHED_PRICES, own_path, own_rates, update
from slipway.jobs.estimate.inputs.price_list import ask_rates, ask_spot_rates
from slipway.jobs.estimate.prices import decode_rates, encode_rates, known_rates
from slipway.jobs.output import Column, json_option, print_record, print_table, progress, say, warn
from slipway.jobs.words.catalogue.instances import (
    InstanceType,
    every_instance_type,
    instance_type,
    instance_types,
    training_types,
)
from slipway.jobs.words.catalogue.regional import our_fees
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import checked_region

INSTANCES_LISTED = (
    Column(name="name", title="type"),
    Column(name="accelerator.count", title="devices", align="right", absent="-"),
    Column(name="accelerator.name", title="accelerator", absent="-"),
    Column(name="vcpus", title="vCPUs", align="right"),
    Column(name="memory_gib", title="memory", unit="GiB", align="right"),
    Column(name="network_gbps", title="network", unit="Gb/s", align="right"),
    Column(name="efa_interfaces", title="EFA", align="right"),
    Column(name="price.usd_per_hour", title="price", unit="USD/h", align="right"),
)
# Shown for each price, unless all listed prices have one region and one day.
PRICED_AT = (Column(name="price.region", title="price region"), Column(name="price.date", title="price date"))

INSTANCES_IN_FULL = (
    Column(name="name", title="type"),
    Column(name="accelerator.name", title="accelerator"),
    Column(name="accelerator.count", title="devices"),
    Column(name="accelerator.memory_gib", title="memory of a device", unit="GiB"),
    Column(name="accelerator.peak_tflops", title="peak of a device", unit="TFLOP/s"),
    Column(name="accelerator.link_gb_s", title="link between devices", unit="GB/s"),
    Column(name="peak_tflops", title="peak of the processors", unit="TFLOP/s"),
    Column(name="peak_note", title="source of the peak"),
    Column(name="link_note", title="kind of link"),
    Column(name="vcpus", title="vCPUs"),
    Column(name="architecture"),
    Column(name="memory_gib", title="memory", unit="GiB"),
    Column(name="registered_memory_mib", title="memory that ECS registers", unit="MiB"),
    Column(name="network_gbps", title="network", unit="Gb/s"),
    Column(name="baseline_gbps", title="network baseline", unit="Gb/s"),
    Column(name="network_cards"),
    Column(name="efa_interfaces", title="EFA interfaces at most"),
    Column(name="price.usd_per_hour", title="price on demand", unit="USD/h"),
    Column(name="price.region", title="price region"),
    Column(name="price.date", title="price date"),
    Column(name="price.source", title="source of the price"),
    Column(name="unpriced_reason", title="why no price is known"),
    Column(name="regions", title="offered in"),
    Column(name="source", title="source of the facts"),
    Column(name="notes"),
)

# Ascending; types without a known value come last.
SORT_KEYS: dict[str, Callable[[InstanceType], float | str | None]] = {
    "name": lambda known: known.name,
    "vcpus": lambda known: known.vcpus,
    "memory-gib": lambda known: known.memory_gib,
    "network-gbps": lambda known: known.network_gbps,
    "efa-interfaces": lambda known: known.efa_interfaces,
    "usd-per-hour": lambda known: known.price.usd_per_hour if known.price else None,
}


class Filters(TypedDict):
    accelerator: str | None
    efa: bool
    region: str | None
    min_memory_gib: int | None
    max_usd_per_hour: float | None


@click.command()
@click.argument("names", nargs=-1, metavar="[TYPE]...", shell_complete=complete_type)
@click.option(
    "--all", "is_all", is_flag=True, help="List every type that AWS names, not only the usual ones."
)
@click.option("--accelerator", metavar="TEXT", help="Accelerator name, or a part of it.")
@click.option("--efa", is_flag=True, help="Limit to types with EFA.")
@click.option("--region", help="Limit to types that this region offers, as far as the catalogue knows.")
@click.option("--min-memory-gib", type=click.IntRange(min=1), help="Minimum memory in GiB.")
@click.option(
    "--max-usd-per-hour",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite,
    help="Maximum price in USD per hour; types without a known price are left out.",
)
@click.option(
    "--sort", type=click.Choice(list(SORT_KEYS)), help="Sort order, ascending; unknown values come last."
)
@json_option
def instance_list_command(
    names: tuple[str, ...], sort: str | None, is_all: bool, as_json: bool, **filters: Unpack[Filters]
) -> None:
    """List the instance types that clusters are made of, or show any type that AWS names in full.

    A price is an on-demand price of one region and one day, shown with both. Unknown values are shown as
    unknown. With several filters, a type must match all of them.

    \b
    slipway instance list dl1.24xlarge
    slipway instance list --all --accelerator A10G
    slipway instance list --efa --max-usd-per-hour 25 --sort usd-per-hour
    """
    chosen = _chosen(
        [instance_type(name) for name in dict.fromkeys(names)]
        or list(every_instance_type() if is_all else instance_types()),
        filters,
    )
    if sort:
        chosen.sort(key=lambda known: _unknown_last(SORT_KEYS[sort](known)))
    rows = [asdict(known) for known in chosen]
    if len(names) == 1 and rows:
        print_record(_columns_in_full(chosen[0]), rows[0], as_json=as_json)
    else:
        title, columns = _heading(chosen)
        print_table(title, columns, rows, as_json=as_json)


def _chosen(types: Sequence[InstanceType], filters: Filters) -> list[InstanceType]:
    chosen = list(types)
    if filters["efa"]:
        chosen = [known for known in chosen if known.has_efa]
    if (text := filters["accelerator"]) is not None:
        if not any(_has_accelerator(known, text) for known in every_instance_type()):
            names = dict.fromkeys(
                known.accelerator.name for known in every_instance_type() if known.accelerator
            )
            raise SlipwayError(
                f"no accelerator's name contains '{text}'", hint=f"known are {', '.join(names)}"
            )
        chosen = [known for known in chosen if _has_accelerator(known, text)]
    if (gib := filters["min_memory_gib"]) is not None:
        chosen = [known for known in chosen if known.memory_gib >= gib]
    if (region := filters["region"]) is not None:
        regions = sorted({region for known in every_instance_type() for region in known.regions})
        if region not in regions:
            close = get_close_matches(region, regions) or regions
            raise SlipwayError(
                f"no type is known to be offered in region '{region}'", hint=f"try {', '.join(close)}"
            )
        chosen = _without_unknown("the regions", [known for known in chosen if known.regions], chosen)
        chosen = [known for known in chosen if region in known.regions]
    if (usd := filters["max_usd_per_hour"]) is not None:
        chosen = _without_unknown("the price", [known for known in chosen if known.price], chosen)
        chosen = [known for known in chosen if known.price and known.price.usd_per_hour <= usd]
    return chosen


def _heading(chosen: Sequence[InstanceType]) -> tuple[str, tuple[Column, ...]]:
    """Return the title and columns; prices of several dates or regions get a column for each."""
    priced_at = {(known.price.region, known.price.date) for known in chosen if known.price}
    if len(priced_at) != 1:
        return "instance types, prices on demand", INSTANCES_LISTED + PRICED_AT
    region, date = priced_at.pop()
    return f"instance types, prices on demand in {region} on {date}", INSTANCES_LISTED


def _without_unknown(
    fact: str, known: list[InstanceType], all_of_them: list[InstanceType]
) -> list[InstanceType]:
    left_out = [one.name for one in all_of_them if one not in known]
    if left_out:
        warn(f"left out, because {fact} is not known: {', '.join(left_out)}")
    return known


def _has_accelerator(known: InstanceType, text: str) -> bool:
    return known.accelerator is not None and text.casefold() in known.accelerator.name.casefold()


def _unknown_last(fact: float | str | None) -> tuple[bool, float | str]:
    return (True, "") if fact is None else (False, fact)


def _columns_in_full(known: InstanceType) -> list[Column]:
    """Return the columns that apply to a type: a node without accelerators has no link between them."""
    needless = set()
    if known.accelerator:
        needless.add("peak_tflops")
    else:
        needless.update(column.name for column in INSTANCES_IN_FULL if column.name.startswith("accelerator."))
        needless.add("link_note")
    needless.update(("unpriced_reason",) if known.price else ("price.region", "price.date", "price.source"))
    return [column for column in INSTANCES_IN_FULL if column.name not in needless]


# `slipway instance prices`: lists the hourly prices of nodes, each with its region, day and source.
PRICES_COLUMNS = (
    Column(name="instance_type", title="type"),
    Column(name="region"),
    Column(name="term"),
    Column(name="usd_per_hour", title="price", unit="USD/h", align="right"),
    Column(name="date"),
    Column(name="written", title="kept in"),
)
FEES = (
    Column(name="item"),
    Column(name="region"),
    Column(name="usd", title="price", unit="USD", align="right"),
    Column(name="per"),
    Column(name="date", absent="-"),
    Column(name="source"),
)


@click.command()
@click.option("--region", help="Limit to this region.")
@click.option("--type", "names", multiple=True, help="Limit to this instance type. Repeatable.")
@click.option("--fees", is_flag=True, help="List the fees for storage, network and schedulers instead.")
@json_option
def instance_prices_command(region: str | None, names: tuple[str, ...], fees: bool, as_json: bool) -> None:
    """List the prices of nodes per hour: on demand and, where known, for a 1-year or 3-year term.

    Your own prices come first: prices.csv in $XDG_CONFIG_HOME/slipway (or the file that SLIPWAY_PRICES
    names), with the columns instance_type, region, term, usd_per_hour, date, source. Next come the prices of
    the last refresh, then those that ship with Slipway.

    \b
    slipway instance prices --region us-east-1
    slipway instance prices --type g5.12xlarge
    slipway instance prices --fees
    slipway instance refresh-prices --region eu-north-1
    """
    if region is not None:
        checked_region(region)
    if fees:
        rows = [asdict(fee) for fee in our_fees() if region in (None, fee.region)]
        print_table("fees for storage, network and schedulers", FEES, rows, as_json=as_json)
        return
    rows = [row for row in _rows(names) if region in (None, row["region"])]
    if not rows:
        where = f" --region {region}" if region else ""
        warn(
            f"no price is known for {region or ', '.join(names)}; "
            f"ask AWS: slipway instance refresh-prices{where}"
        )
    print_table("prices of one node", PRICES_COLUMNS, rows, as_json=as_json)


@click.command()
@click.option("--region", "regions", multiple=True, help="Region to ask for. Repeatable. Default: us-east-1.")
@click.option(
    "--type", "names", multiple=True, help="Instance type to ask for. Repeatable. Default: all known types."
)
@click.option(
    "--spot", is_flag=True, help="Ask EC2 for Spot prices instead, the cheapest zone's of each region."
)
def instance_refresh_prices_command(regions: tuple[str, ...], names: tuple[str, ...], spot: bool) -> None:
    """Get current prices from AWS's price list, and keep them in a file next to your own prices.

    A type without a price in that list keeps its known price and date. Spot prices change by the hour; ask
    again before you rely on them.

    \b
    slipway instance refresh-prices --region us-east-1 --region us-west-2
    slipway instance refresh-prices --spot --region us-east-1 --type p4d.24xlarge
    """
    wanted = [instance_type(name).name for name in names] or [known.name for known in instance_types()]
    asked = [checked_region(region) for region in dict.fromkeys(regions)] or ["us-east-1"]
    with progress("asking for Spot prices" if spot else "asking the price list") as now:
        found, missing = ask_spot_rates(wanted, asked) if spot else ask_rates(wanted, asked, now)
    for name in missing:
        warn(f"AWS lists no {'Spot ' if spot else ''}price of {name}")
    if not found:
        return

    def with_found(text: str) -> str:
        before = decode_rates(text, str(own_path(REFRESHED_PRICES))) if text else ()
        rows = {(rate.instance_type, rate.region, rate.term): rate for rate in (*before, *found)}
        return encode_rates(rows[key] for key in sorted(rows))

    say(f"{len(found)} prices written to {update(REFRESHED_PRICES, with_found)}")


def _rows(names: Sequence[str]) -> list[dict[str, object]]:
    """Return the price in force for each region and term of these types, or of the usual ones."""
    written = [(rate, str(own_path(file))) for file in (PRICES, REFRESHED_PRICES) for rate in own_rates(file)]
    wanted = {instance_type(name).name for name in names}
    usual = wanted or {known.name for known in (*instance_types(), *training_types())}
    holds: dict[tuple[str, str, str], dict[str, object]] = {}
    ours = ((rate, "slipway") for rate in known_rates() if rate.instance_type in usual)
    for rate, place in [*(row for row in written if not wanted or row[0].instance_type in wanted), *ours]:
        key = rate.instance_type, rate.region, rate.term
        holds.setdefault(key, {**asdict(rate), "written": place})
    return [holds[key] for key in sorted(holds)]
