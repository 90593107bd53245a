"""Before a deployment: `slipway preflight` names a fix for each problem, `quota`, and `instances`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import TypedDict, Unpack

import click
from click.shell_completion import CompletionItem

from slipway.jobs.cli.options import overrides_option, say_project
from slipway.jobs.output import Column, json_option, print_record, print_table, say, warn
from slipway.jobs.words.catalogue.instances import (
    InstanceType,
    every_instance_type,
    instance_type,
    instance_types,
    names_like,
)
from slipway.jobs.words.errors import SlipwayError

PREFLIGHT_COLUMNS = (
    Column(name="check"),
    Column(name="outcome"),
    Column(name="found"),
    Column(name="fix", absent="-"),
)


@click.command()
@click.argument("cluster")
@overrides_option
@json_option
def preflight_command(cluster: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check everything that a deployment of CLUSTER needs, before anything is created.

    The command asks AWS (or the yard, if AWS_ENDPOINT_URL names it) and changes nothing. It ends with exit
    code 1 if a check failed. A check that AWS did not answer is unknown, and names the missing permission.

    \b
    slipway preflight dl1
    slipway preflight dl1 -c dl1.zone=us-east-1b -c dl1.max_nodes=2
    """
    from slipway.infra.declare.declared import declared_cluster
    from slipway.jobs.clusters.preflight.checks import CHECKS
    from slipway.jobs.clusters.preflight.facts import gather
    from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
    from slipway.jobs.words.installation import find_containers

    say_project()
    declared = declared_cluster(cluster, overrides)
    facts = gather(declared, find_containers())
    verdicts = {name: check(declared, facts) for name, check in CHECKS.items()}
    rows = [{"check": name, **asdict(each), "fix": each.fix or None} for name, each in verdicts.items()]
    print_table(f"preflight of {cluster}", PREFLIGHT_COLUMNS, rows, as_json=as_json)
    outcomes = [verdict.outcome for verdict in verdicts.values()]
    say(", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in CheckOutcome))
    if CheckOutcome.FAILED in outcomes:
        raise click.exceptions.Exit(SlipwayError.exit_code)


# `slipway quota`: shows the quotas that a cluster needs, and requests what the account lacks.
QUOTA_COLUMNS = (
    Column(name="purpose"),
    Column(name="name", title="quota"),
    Column(name="region"),
    Column(name="needed", align="right"),
    Column(name="counted", title="of it"),
    Column(name="allowed", align="right"),
    Column(name="requested", align="right", absent="-"),
    Column(name="unit", title="counted in"),
)


@click.command()
@click.argument("cluster")
@click.option("--request", "asks", is_flag=True, help="Request what the account lacks, once.")
@click.option("--wait", is_flag=True, help="Wait until the quotas suffice; on AWS that can take days.")
@overrides_option
@json_option
def quota_command(cluster: str, asks: bool, wait: bool, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show the quotas that CLUSTER needs: for all of its nodes and for baking its AMI, or for its jobs.

    A quota is one number for all that an account runs in a region: what is needed is the sum over this
    cluster, the others that are declared or deployed there, and machines that run besides. A fresh account
    may run 5 vCPUs of standard instances and no accelerated ones, and SageMaker has quotas of its own. AWS
    answers a request in minutes to days, and may ask what for.

    \b
    slipway quota dl1
    slipway quota dl1 -c dl1.max_nodes=2 --request
    """
    from slipway.infra.declare.declared import declared_cluster
    from slipway.jobs.clusters.quotas import (
        find_quotas,
        neighbourhood_of,
        request_increase,
        wait_for_quotas,
    )

    say_project()
    declared = declared_cluster(cluster, overrides)
    hood = neighbourhood_of(declared)
    found = find_quotas(declared, hood)
    if asks:
        found = [request_increase(quota) for quota in found]
    if wait:
        found = list(wait_for_quotas(declared, hood))
    print_table(f"quotas of {cluster}", QUOTA_COLUMNS, [asdict(each) for each in found], as_json=as_json)


# `slipway instances`: the catalogue of instance types. A filter is one option and one line of `_chosen`.
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
# Beside each price, unless one region and one day hold for all that are listed.
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

# Ascending; a type of which the fact is unknown comes last.
SORT_KEYS: dict[str, Callable[[InstanceType], float | str | None]] = {
    "name": lambda known: known.name,
    "vcpus": lambda known: known.vcpus,
    "memory-gib": lambda known: known.memory_gib,
    "network-gbps": lambda known: known.network_gbps,
    "efa-interfaces": lambda known: known.efa_interfaces,
    "usd-per-hour": lambda known: known.price.usd_per_hour if known.price else None,
}


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse nan and inf, which click's ranges let through."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", ctx, param)
    return value


def complete_instance_type(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete an argument or option that takes an instance type (`shell_complete=` of it)."""
    return [CompletionItem(name) for name in names_like(incomplete) if name.startswith(incomplete)]


class Filters(TypedDict):
    accelerator: str | None
    efa: bool
    region: str | None
    min_memory_gib: int | None
    max_usd_per_hour: float | None


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_instance_type)
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
def instances_command(
    names: tuple[str, ...], sort: str | None, is_all: bool, as_json: bool, **filters: Unpack[Filters]
) -> None:
    """List the instance types that clusters are made of, or show any type that AWS names in full.

    A price is an on-demand price of one region and one day, shown with both. Unknown values are shown as
    unknown. With several filters, a type must match all of them.

    \b
    slipway instances dl1.24xlarge
    slipway instances --all --accelerator A10G
    slipway instances --efa --max-usd-per-hour 25 --sort usd-per-hour
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
        print_record("", _columns_in_full(chosen[0]), rows[0], as_json=as_json)
    else:
        title, columns = _heading(chosen)
        print_table(title, columns, rows, as_json=as_json)


def _chosen(types: Sequence[InstanceType], filters: Filters) -> list[InstanceType]:
    chosen = list(types)
    if filters["efa"]:
        chosen = [known for known in chosen if known.has_efa]
    if (text := filters["accelerator"]) is not None:
        _require_accelerator(text)
        chosen = [known for known in chosen if _has_accelerator(known, text)]
    if (gib := filters["min_memory_gib"]) is not None:
        chosen = [known for known in chosen if known.memory_gib >= gib]
    if (region := filters["region"]) is not None:
        _require_region(region)
        chosen = _without_unknown("the regions", [known for known in chosen if known.regions], chosen)
        chosen = [known for known in chosen if region in known.regions]
    if (usd := filters["max_usd_per_hour"]) is not None:
        chosen = _without_unknown("the price", [known for known in chosen if known.price], chosen)
        chosen = [known for known in chosen if known.price and known.price.usd_per_hour <= usd]
    return chosen


def _heading(chosen: Sequence[InstanceType]) -> tuple[str, tuple[Column, ...]]:
    """Return title and columns; prices of several dates or regions each get theirs in a column."""
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


def _require_accelerator(text: str) -> None:
    if not any(_has_accelerator(known, text) for known in every_instance_type()):
        names = dict.fromkeys(known.accelerator.name for known in every_instance_type() if known.accelerator)
        raise SlipwayError(f"no accelerator's name contains '{text}'", hint=f"known are {', '.join(names)}")


def _require_region(region: str) -> None:
    regions = sorted({region for known in every_instance_type() for region in known.regions})
    if region not in regions:
        close = get_close_matches(region, regions) or regions
        raise SlipwayError(
            f"no type is known to be offered in region '{region}'", hint=f"try {', '.join(close)}"
        )


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
