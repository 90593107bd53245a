"""`slipway compare`: compares one job on every cluster and size that fits, by cost or by time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click

from slipway.jobs.cli.completing import complete_place, complete_recipe
from slipway.jobs.cli.estimate import row, with_place_options
from slipway.jobs.cli.estimate_views import NO_BAND, ends, hours, percent, rounded
from slipway.jobs.cli.estimate_views import band as shown_band
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import Estimate, PricedHardware, estimate_sizes, refuse_size
from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.inputs.own_data import measurements, rates
from slipway.jobs.estimate.inputs.places import alone, declared_places, find_place
from slipway.jobs.estimate.inputs.workloads import workload_of
from slipway.jobs.estimate.pareto import BEST, scale_of, verdicts
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.output import Column, json_option, print_table, say, warn
from slipway.jobs.words.catalogue.instances import every_instance_type, instance_types
from slipway.jobs.words.job import parse_settings
from slipway.jobs.words.text import dollars

USUAL_SIZES = (1, 2, 4, 8, 16, 32, 64)
ROWS = 20
COMPARE_COLUMNS = (
    Column(name="best"),
    Column(name="place", title="cluster or type"),
    Column(name="nodes", align="right"),
    Column(name="devices", align="right"),
    Column(name="sequences_per_second", title="seq/s", align="right", format=rounded(2)),
    Column(name="efficiency", align="right", format=percent),
    Column(name="sequences", align="right", format=rounded(0)),
    Column(name="hours", title="time", align="right", format=hours),
    Column(name="usd", title="cost", unit="USD", align="right", format=dollars),
    Column(name="ranges.hours", title="nine of ten: time", absent="", format=ends(hours)),
    Column(name="ranges.usd", title="cost [USD]", absent="", format=ends(dollars)),
    Column(name="tokens_per_dollar", title="tokens/USD", align="right", format=rounded(0)),
    Column(name="word", title="basis"),
    Column(name="band", title="within", align="right", absent=NO_BAND, format=shown_band),
    Column(name="changed", title="instead of the layout asked for"),
    Column(name="price.region", title="price region", absent="-"),
    Column(name="price.date", title="price date", absent="-"),
)


@click.command()
@click.argument("job", metavar="RECIPE|MODEL", shell_complete=complete_recipe)
@click.option(
    "--by", type=click.Choice(["cost", "time"]), default="cost", show_default=True, help="Sort order."
)
@click.option(
    "--on",
    "only",
    multiple=True,
    metavar="CLUSTER|TYPE",
    shell_complete=complete_place,
    help="Limit to this cluster or instance type. Repeatable.",
)
@click.option(
    "--all-types",
    is_flag=True,
    help="Compare every type that AWS names and whose peak is known, not only the largest of a family.",
)
@with_place_options
@click.option(
    "--rows", type=click.IntRange(1), default=ROWS, show_default=True, help="Maximum number of rows."
)
@json_option
def compare_command(
    job: str, by: str, only: tuple[str, ...], all_types: bool, rows: int, as_json: bool, **asked: Any
) -> None:
    """Compare a RECIPE or MODEL on declared clusters and instance types, at every size that fits.

    Without --on, the types are those that `slipway instance list` lists: what clusters are made of, mostly
    the largest of each family. --all-types takes seconds.

    A star marks the Pareto-optimal rows (time and cost), wherever in their ranges the truth lies; "not told
    apart" marks rows that may be, because ranges overlap. If larger clusters train more sequences per step,
    rows are compared by the time and cost of one sequence. If the requested layout does not fit, the row
    names the layout that is used instead. Types without a price come last.

    \b
    slipway compare bert_pretrain --set size=large
    slipway compare gpt-neox-20b --by time --nodes 4,8,16 --on trn1.32xlarge --on p4d.24xlarge
    """
    workload = workload_of(job, parse_settings(asked.pop("settings")))
    if only and all_types:
        raise click.UsageError("--on names types and --all-types takes all; leave one of them out")
    nodes = asked.pop("nodes")
    places = find_places(only, **asked, all_types=all_types)
    found = estimate_places(workload, places, nodes, measurements(), is_named=bool(only))
    table = ordered(found, by)
    shown = table if as_json else table[:rows]
    named = {place.name: place for place in places}
    lines = [
        {**row(each, named[each.place]), "front": verdict == BEST, "best": verdict} for each, verdict in shown
    ]
    print_table(f"{workload.name} by {by}", COMPARE_COLUMNS, lines, as_json=as_json)
    if len(shown) < len(table):
        say(f"{len(table) - len(shown)} more; --rows {len(table)} prints all")
    say(f"time and cost: {workload.until or 'unknown, since this job has no known end'}")
    if scale_of(found).per_sequence:
        say("rows train different numbers of sequences, so they are compared by time and cost per sequence")


def estimate_places(
    workload: Workload,
    places: Sequence[PricedHardware],
    nodes: tuple[int, ...] | None,
    rows: Sequence[Measurement],
    *,
    is_named: bool = False,
) -> list[Estimate]:
    """Return an estimate for each size that fits; say which places are left out, one by one if named."""
    for size in nodes or ():
        refuse_size(size)
    found: list[Estimate] = []
    left_out: list[str] = []
    for place in places:
        try:
            found += estimate_sizes(workload, place, nodes or USUAL_SIZES, rows)
        except CannotEstimate as error:
            left_out.append(error.message)
    for reason in left_out if is_named else ():
        warn(f"left out: {reason}")
    if left_out and not is_named:
        say(f"{len(left_out)} types are left out: too little is known about them, or they cannot train it")
    if not found:
        raise CannotEstimate(
            f"{workload.name} fits none of the clusters and types that were asked for",
            hint="ask for more nodes, or leave out --on",
        )
    return found


def ordered(found: Sequence[Estimate], by: str) -> list[tuple[Estimate, str]]:
    scale = scale_of(found)
    marked = list(zip(found, verdicts(found), strict=True))

    def key(pair: tuple[Estimate, str]) -> tuple[bool, float, float]:
        cost, time = scale.cost(pair[0]), scale.time(pair[0])
        return math.isinf(cost), *((cost, time) if by == "cost" else (time, cost))

    return sorted(marked, key=key)


def find_places(
    only: Sequence[str], *, region: str | None, term: str, all_types: bool = False
) -> list[PricedHardware]:
    """Return the named places; by default, declared clusters and what `slipway instance list` shows."""
    known = rates()
    if only:
        return [find_place(name, known, region=region, term=term) for name in dict.fromkeys(only)]
    places = declared_places(known, region=region, term=term)
    taken = {place.instance.name for place in places}
    refused = []
    for kind in every_instance_type() if all_types else instance_types():
        if kind.name in taken:
            continue
        try:
            places.append(alone(kind, known, region=region, term=term))
        except CannotEstimate as error:
            refused.append(error)
    if not places:
        raise refused[0]
    return places
