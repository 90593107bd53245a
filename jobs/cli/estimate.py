"""`slipway estimate`: estimates throughput, memory, hours and dollars of a job before you pay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import click

from slipway.jobs.cli.completing import complete_place, complete_recipe
from slipway.jobs.cli.estimate_views import (
    NO_BAND,
    band,
    check_estimates,
    differs_from_article,
    doubts,
    ends,
    estimate_idle,
    hours,
    percent,
    print_bill,
    refused_layouts,
    rounded,
    run_words,
    steps,
)
from slipway.jobs.cli.estimate_why import print_why
from slipway.jobs.cli.options import together
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import Estimate, PricedHardware
from slipway.jobs.estimate.evidence.bands import find_band
from slipway.jobs.estimate.inputs.asking import estimate_usual_sizes, estimate_what_works
from slipway.jobs.estimate.inputs.own_data import measurements, rates
from slipway.jobs.estimate.inputs.places import altered, find_place
from slipway.jobs.estimate.inputs.workloads import workload_of
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.output import Column, Row, json_option, print_table, say, warn
from slipway.jobs.words.catalogue.hardware import device_of
from slipway.jobs.words.job import parse_settings
from slipway.jobs.words.recipes import RECIPES
from slipway.jobs.words.text import dollars

MOST_SIZES = 100
ON_DEMAND = "on-demand"


ESTIMATE_COLUMNS = (
    Column(name="nodes", align="right"),
    Column(name="devices", align="right"),
    Column(name="sequences_per_second", title="seq/s", align="right", format=rounded(2)),
    Column(name="sequences_per_second_per_device", title="a device", align="right", format=rounded(2)),
    Column(name="efficiency", align="right", format=percent),
    Column(name="tokens_per_dollar", title="tokens/USD", align="right", format=rounded(0)),
    Column(name="memory_gib", title="memory a device", unit="GiB", align="right", format=rounded(1)),
    Column(name="usd_per_hour", title="price", unit="USD/h", align="right", format=dollars),
    Column(name="steps", align="right", format=steps),
    Column(name="sequences_per_step", title="sequences", format=rounded(0)),
    Column(name="hours", title="time", align="right", format=hours),
    Column(name="usd", title="cost", unit="USD", align="right", format=dollars),
    Column(name="word", title="basis"),
    Column(name="band", title="within", align="right", absent=NO_BAND, format=band),
    Column(name="ranges.hours", title="nine of ten: time", absent="", format=ends(hours)),
    Column(name="ranges.usd", title="cost [USD]", absent="", format=ends(dollars)),
)


def sizes(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Parse 1,2,4,8 into sizes, ascending and without duplicates."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    wrong = [word for word in words if not word.lstrip("-").isascii() or not word.lstrip("-").isdecimal()]
    if wrong:
        raise click.BadParameter(f"'{wrong[0]}' is not a number of nodes; write for example 1,2,4,8")
    found = tuple(sorted({int(word) for word in words}))
    if len(found) > MOST_SIZES:
        raise click.BadParameter(f"{len(found)} sizes are too many; give at most {MOST_SIZES}")
    return found


with_place_options = together(
    click.option(
        "--nodes",
        callback=sizes,
        metavar="N,N…",
        help="Cluster sizes, comma-separated. Default: powers of two that fit.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Setting of the recipe, as for slipway submit. Repeatable.",
    ),
    click.option(
        "--region", help="Region of the prices. Default: the cluster's, or any region with a known price."
    ),
    click.option(
        "--term",
        type=click.Choice([ON_DEMAND, "spot", "capacity-block", "1-year", "3-year"]),
        default=ON_DEMAND,
        show_default=True,
        help="How the nodes are paid; 1-year and 3-year prices are effective hourly rates.",
    ),
)


on_option = click.option(
    "--on",
    "place",
    metavar="CLUSTER|TYPE",
    shell_complete=complete_place,
    help="Cluster or instance type to estimate for.",
)


@click.command()
@click.argument("job", required=False, metavar="[RECIPE|MODEL]", shell_complete=complete_recipe)
@on_option
@with_place_options
@click.option(
    "--network", type=float, metavar="GBIT", help="Nodes like these with another network, in Gbit/s each."
)
@click.option("--devices", type=int, metavar="N", help="Nodes like these with N devices each.")
@click.option("--bill", "is_bill", is_flag=True, help="Show what the job costs item by item, to its end.")
@click.option(
    "--why", "is_why", is_flag=True, help="Show what a step's time and a device's memory are made of."
)
@click.option(
    "--assume",
    "assumptions",
    multiple=True,
    metavar="KEY=VALUE",
    help="What --bill assumes: start_minutes, failures, save_minutes, stored_gib, interruptions or savings.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Check each kind of estimate against published rows; fail if an article's row is missed.",
)
@click.option(
    "--idle",
    metavar="CLUSTER",
    help="Show what CLUSTER costs a month while nothing runs, as deployed or else as declared.",
)
@json_option
def estimate_command(
    job: str | None, place: str | None, check: bool, idle: str | None, as_json: bool, **asked: Any
) -> None:
    """Estimate a RECIPE or a MODEL on a declared cluster or an instance type.

    A MODEL is a name, a config.json as transformers writes it, a folder with one, or `decoder` or `encoder`
    with its sizes as settings. Nodes changed by --network and --devices have no price.

    Each row says what its rate (seq/s) is based on: measured (somebody published this configuration),
    calibrated (the same model was measured on the same accelerator) or predicted (neither). "within" is how
    far off nine of ten such rates are, by the distance from the nearest measurement, and the last columns
    what that leaves of time and cost. Both follow from the rate and from the steps that `slipway submit`
    would train with the same settings. Each price is shown with its region and date; unknown values are shown
    as unknown. For a declared cluster, storage and network fees are included. The command asks AWS nothing,
    except with --idle what is deployed.

    \b
    slipway estimate bert_pretrain --on dl1 --nodes 1,2,4,8 --set size=1.5b
    slipway estimate gpt-neox-20b --on trn1.32xlarge --nodes 4,16,64 --term 3-year
    slipway estimate pythia-6.9b --on p4d.24xlarge --set tensor=8 --set global_batch=256
    slipway estimate ./llama-3-8b/config.json --on p5.48xlarge --set sharding=fsdp --set micro_batch=2
    slipway estimate decoder --set layers=32 --set hidden=4096 --on p4d.24xlarge --network 1600
    slipway estimate bert_pretrain --on dl1 --nodes 8 --set size=large --bill --assume stored_gib=500
    slipway estimate gpt-neox-20b --on trn1.32xlarge --nodes 4 --why
    slipway estimate --idle dl1
    """
    _refuse_more_than_one_question(job, place, asked, check=check, idle=idle)
    if check:
        check_estimates(as_json=as_json)
    elif idle is not None:
        estimate_idle(idle, as_json=as_json)
    elif job is None or place is None:
        raise click.UsageError(
            "a recipe or --on is missing; use slipway estimate RECIPE --on CLUSTER, --idle or --check"
        )
    else:
        _estimate_job(job, place, asked, as_json=as_json)


def _estimate_job(job: str, place: str, asked: Mapping[str, Any], *, as_json: bool) -> None:
    if asked["is_why"] and asked["is_bill"]:
        raise click.UsageError("--why and --bill are two questions; leave one out")
    if asked["assumptions"] and not asked["is_bill"]:
        raise click.UsageError("--assume is for a bill; add --bill")
    workload, where, found, refused = estimates(job, place, asked)
    title = f"{workload.name} on {where.name}, {price_words(where)}"
    lines = [row(each, where) for each in found]
    reasons = [{"nodes": size, "refused": why.message, "hint": why.hint} for size, why in refused.items()]
    for error in refused.values() if asked["is_bill"] or asked["is_why"] else ():
        warn(f"left out: {error.message}; {error.hint}")
    lines = sorted([*lines, *reasons], key=lambda line: int(str(line["nodes"])))
    if asked["is_why"]:
        print_why(title, workload, where, found, as_json=as_json)
    elif asked["is_bill"]:
        print_bill(title, where, found, asked["assumptions"], as_json=as_json)
    elif refused and not as_json:
        print_table(title, *_with_reasons(lines), as_json=False)
    else:
        print_table(title, ESTIMATE_COLUMNS, lines, as_json=as_json)
    tell(workload, where, found, () if asked["is_bill"] else found[0].unpriced)
    for doubt in refused_layouts(job, where, asked["settings"]):
        warn(doubt)


def _refuse_more_than_one_question(
    job: str | None, place: str | None, asked: Mapping[str, Any], *, check: bool, idle: str | None
) -> None:
    """Refuse a question about no job (--check, --idle) together with options of an estimate of a job."""
    if check and idle is not None:
        raise click.UsageError("--check and --idle are two questions; leave one out")
    alone = "--check" if check else "--idle" if idle is not None else ""
    given = {
        "recipe or model": job,
        "--on": place,
        "--nodes": asked["nodes"],
        "--set": asked["settings"],
        "--region": asked["region"],
        "--network": asked["network"],
        "--devices": asked["devices"],
        "--bill": asked["is_bill"],
        "--why": asked["is_why"],
        "--term": None if asked["term"] == ON_DEMAND else asked["term"],
    }
    if alone and (others := [name for name, value in given.items() if value]):
        raise click.UsageError(f"{alone} takes no {others[0]}: it is about no single job; leave one out")


def _with_reasons(lines: Sequence[Row]) -> tuple[Sequence[Column], Sequence[Row]]:
    """Return a table in which the row of a size that does not work has only its reason."""
    columns = [replace(column, format=_or_nothing(column.format)) for column in ESTIMATE_COLUMNS]
    nothing = {column.name: "" for column in ESTIMATE_COLUMNS}
    full = [{**nothing, **line} if "refused" in line else line for line in lines]
    return [*columns, Column(name="refused", title="does not work because", absent="")], full


def _or_nothing(form: Callable[[object], str]) -> Callable[[object], str]:
    return lambda value: "" if value == "" else form(value)


def estimates(
    job: str, place: str, asked: Mapping[str, Any]
) -> tuple[Workload, PricedHardware, list[Estimate], Mapping[int, CannotEstimate]]:
    """Estimate the requested sizes, or the usual ones; also return the reasons of those that do not work."""
    workload, known = workload_of(job, parse_settings(asked["settings"])), measurements()
    as_it_is = find_place(place, rates(), region=asked["region"], term=asked["term"])
    where = altered(as_it_is, network_gbps=asked["network"], devices=asked["devices"])
    if asked["nodes"] is not None:
        found, refused = estimate_what_works(workload, where, asked["nodes"], known)
        return workload, where, found, refused
    found, refused = estimate_usual_sizes(workload, where, known)
    for each in refused.values():
        warn(f"left out: {each.message}; {each.hint}")
    return workload, where, found, {}


def row(estimated: Estimate, place: PricedHardware) -> Mapping[str, object]:
    return {**asdict(estimated), "price": asdict(place.rate) if place.rate else None}


def price_words(place: PricedHardware) -> str:
    rate = place.rate
    if rate is None:
        return f"no price known{f' in {place.region}' if place.region else ''}"
    return f"prices {rate.term} in {rate.region} of {rate.date}"


def tell(
    workload: Workload, place: PricedHardware, found: Sequence[Estimate], unpriced: Sequence[str]
) -> None:
    """Say on stderr what the numbers in the table are based on."""
    say(f"the run: {run_words(workload, found)}")
    for difference in differs_from_article(workload):
        say(difference)
    for basis, nearness in dict.fromkeys((each.basis, each.nearness) for each in found):
        say(f"utilisation: {basis}" + (f"; {nearness}" if nearness else ""))
    for word in dict.fromkeys(each.word for each in found):
        say(f"{word}: {find_band(word, device_of(place.instance)).words}")
    if workload.until:
        say(f"time and cost: derived from the rate: {workload.until}")
    else:
        setting = "steps" if workload.name in RECIPES else "sequences"
        say(f"time and cost: unknown, since this job has no known end; say --set {setting}=N")
    if workload.assumed:
        say(f"assumed: {workload.assumed}")
    if place.rate is not None and place.rate.region != place.region:
        warn(f"no price of {place.instance.name} in {place.region} is known; {place.rate.region}'s is shown")
    if place.rate is None:
        warn(f"no price of {place.instance.name} is known; slipway instance refresh-prices asks AWS for it")
    for each in unpriced:
        say(f"not counted: {each}")
    for doubt in doubts(workload, place, found):
        warn(doubt)
    if place.name == place.instance.name:
        say("only nodes are priced; name a declared cluster to include its storage and network")
