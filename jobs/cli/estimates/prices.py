"""`slipway prices`: what nodes cost by the hour, each price with its region, its day and its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from slipway.jobs.output import Column, json_option, print_table, progress, say, warn

if TYPE_CHECKING:
    from slipway.jobs.estimate.prices import Rate

COLUMNS = (
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


@click.group(invoke_without_command=True)
@click.option("--region", help="Limit to this region.")
@click.option("--type", "names", multiple=True, help="Limit to this instance type. Repeatable.")
@click.option("--fees", is_flag=True, help="List the fees for storage, network and schedulers instead.")
@json_option
@click.pass_context
def command(
    context: click.Context, region: str | None, names: tuple[str, ...], fees: bool, as_json: bool
) -> None:
    """List the prices of nodes per hour: on demand and, where known, for a 1-year or 3-year term.

    Your own prices come first: prices.csv in $XDG_CONFIG_HOME/slipway (or the file that SLIPWAY_PRICES
    names), with the columns instance_type, region, term, usd_per_hour, date, source. Next come the prices of
    the last refresh, then those that ship with Slipway.

    \b
    slipway prices --region us-east-1
    slipway prices --type g5.12xlarge
    slipway prices --fees
    slipway prices refresh --region eu-north-1
    """
    if context.invoked_subcommand is not None:
        return
    if fees:
        from slipway.jobs.words.catalogue.regional import our_fees

        rows = [asdict(fee) for fee in our_fees() if region in (None, fee.region)]
        print_table("fees for storage, network and schedulers", FEES, rows, as_json=as_json)
        return
    rows = [row for row in _rows(names) if region in (None, row["region"])]
    if not rows:
        where = f" --region {region}" if region else ""
        warn(f"no price is known for {region or ', '.join(names)}; ask AWS: slipway prices refresh{where}")
    print_table("prices of one node", COLUMNS, rows, as_json=as_json)


@command.command()
@click.option("--region", "regions", multiple=True, help="Region to ask for. Repeatable. Default: us-east-1.")
@click.option(
    "--type", "names", multiple=True, help="Instance type to ask for. Repeatable. Default: all known types."
)
@click.option(
    "--spot", is_flag=True, help="Ask EC2 for Spot prices instead, the cheapest zone's of each region."
)
def refresh(regions: tuple[str, ...], names: tuple[str, ...], spot: bool) -> None:
    """Get current prices from AWS's price list, and keep them in a file next to your own prices.

    A type without a price in that list keeps its known price and date. Spot prices change by the hour; ask
    again before you rely on them.

    \b
    slipway prices refresh --region us-east-1 --region us-west-2
    slipway prices refresh --spot --region us-east-1 --type p4d.24xlarge
    """
    from slipway.jobs.estimate.inputs.price_list import ask_rates, ask_spot_rates
    from slipway.jobs.words.catalogue.instances import instance_type, instance_types
    from slipway.jobs.words.names import checked_region

    wanted = [instance_type(name).name for name in names] or [known.name for known in instance_types()]
    asked = [checked_region(region) for region in dict.fromkeys(regions)] or ["us-east-1"]
    with progress("asking for Spot prices" if spot else "asking the price list") as now:
        found, missing = ask_spot_rates(wanted, asked) if spot else ask_rates(wanted, asked, now)
    for name in missing:
        warn(f"AWS lists no {'Spot ' if spot else ''}price of {name}")
    if found:
        say(f"{len(found)} prices written to {_keep(found)}")


def _rows(names: Sequence[str]) -> list[dict[str, object]]:
    """Return the price in force for each region and term of these types, or of the usual ones."""
    from slipway.jobs.estimate.inputs.own_data import PRICES, REFRESHED_PRICES, own_path, own_rates
    from slipway.jobs.estimate.prices import known_rates
    from slipway.jobs.words.catalogue.instances import instance_type, instance_types, training_types

    written = [(rate, str(own_path(file))) for file in (PRICES, REFRESHED_PRICES) for rate in own_rates(file)]
    wanted = {instance_type(name).name for name in names}
    usual = wanted or {known.name for known in (*instance_types(), *training_types())}
    holds: dict[tuple[str, str, str], dict[str, object]] = {}
    ours = ((rate, "slipway") for rate in known_rates() if rate.instance_type in usual)
    for rate, place in [*(row for row in written if not wanted or row[0].instance_type in wanted), *ours]:
        key = rate.instance_type, rate.region, rate.term
        holds.setdefault(key, {**asdict(rate), "written": place})
    return [holds[key] for key in sorted(holds)]


def _keep(found: Sequence[Rate]) -> str:
    from slipway.jobs.estimate.inputs.own_data import REFRESHED_PRICES, own_path, update
    from slipway.jobs.estimate.prices import decode_rates, encode_rates

    def with_found(text: str) -> str:
        before = decode_rates(text, str(own_path(REFRESHED_PRICES))) if text else ()
        rows = {(rate.instance_type, rate.region, rate.term): rate for rate in (*before, *found)}
        return encode_rates(rows[key] for key in sorted(rows))

    return str(update(REFRESHED_PRICES, with_found))
