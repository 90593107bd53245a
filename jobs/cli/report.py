"""`slipway report page`: estimates, and a run next to them, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from slipway.jobs.cli.compare import estimate_places, find_places
from slipway.jobs.cli.completing import complete_recipe_or_job
from slipway.jobs.cli.estimate import on_option, with_place_options
from slipway.jobs.cloud import aws
from slipway.jobs.estimate import throughput
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import Estimate, PricedHardware
from slipway.jobs.estimate.evidence.calibrations import find_calibration
from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.evidence.published import check
from slipway.jobs.estimate.fitting import band_of
from slipway.jobs.estimate.inputs.asking import estimate_what_works
from slipway.jobs.estimate.inputs.own_data import measurements, rates
from slipway.jobs.estimate.inputs.places import find_place
from slipway.jobs.estimate.inputs.workloads import names_a_job, workload_of
from slipway.jobs.estimate.pareto import scale_of, verdicts
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.output import refuse_unwritable, say, warn, write_file
from slipway.jobs.report.charts import drawer
from slipway.jobs.report.contents import Comparison, RunBesideEstimate, job_page
from slipway.jobs.report.page import Page, published_page, render
from slipway.jobs.report.run_page import run_page
from slipway.jobs.submit import find, logs
from slipway.jobs.submit.logs import Wanted
from slipway.jobs.submit.rate import TooShort, read_run
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import parse_settings
from slipway.jobs.words.recipes import RECIPES, find_recipe

SIZES = (1, 2, 4, 8, 16, 32, 64)


@click.command()
@click.argument(
    "subject", required=False, metavar="[JOB|RECIPE|MODEL]", shell_complete=complete_recipe_or_job
)
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write.",
)
@on_option
@with_place_options
def report_page_command(subject: str | None, path: Path, place: str | None, **asked: Any) -> None:
    """Write one self-contained HTML page: scaling, cost against time, and measured against predicted.

    For a RECIPE or MODEL, the page shows estimates for --on and for every other cluster and type. For a JOB,
    it shows the measured throughput next to its estimate; for a JOB of your own code, its curves, attempts,
    nodes, cost and last lines. Without an argument, it shows the published tables. The page needs no script
    and no network, and suits phones, dark mode and print.

    \b
    slipway report page bert_pretrain --on dl1 -o bert.html
    slipway report page bert_pretrain-448d16bd457c -o run.html
    slipway report page my-training -o run.html
    slipway report page -o published.html
    """
    drawer()  # raises before anything is computed if the library is missing
    refuse_unwritable(path)
    text = render(published_page(list(check())) if subject is None else _page(subject, place, asked))
    write_file(path, text)


def _page(subject: str, place: str | None, asked: dict[str, Any]) -> Page:
    """Build the page of a recipe or a model if the subject names one, else that of a run."""
    settings = parse_settings(asked.pop("settings"))
    if names_a_job(subject):
        workload = workload_of(subject, _with_the_article_s_size(subject, settings))
        rows = measurements()
        places = find_places((), region=asked["region"], term=asked["term"])
        found = estimate_places(workload, places, asked["nodes"], rows)
        if place is None:
            where = _usual_place(places, found)
        else:
            where = find_place(place, rates(), region=asked["region"], term=asked["term"])
        sizes = _sizes(workload, where, asked["nodes"], rows)
        return job_page(workload, where, sizes, _compared(places, found), None)
    if settings or place:
        raise SlipwayError(
            f"'{subject}' is neither a recipe nor a model, and a run brings its own cluster and settings",
            hint="leave out --on and --set, or correct the name",
        )
    return _run_page(subject, asked)


def _with_the_article_s_size(subject: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings with the size of the recipe's article, unless the user asks for one.

    The recipe's default size is for a first try; nobody needs its times and prices.
    """
    article = getattr(find_recipe(subject).config, "ARTICLE", {}) if subject in RECIPES else {}
    if not article or not settings.keys().isdisjoint({*article, "config"}):
        return settings
    told = " ".join(f"--set {name}={value}" for name, value in article.items())
    say(f"for the article's size: {told}; another one: --set size=…")
    return {**article, **settings}


def _run_page(subject: str, asked: dict[str, Any]) -> Page:
    """Build the page of a run with its estimate, or of a run for which there is no estimate."""
    found = find.find_newest(subject, find.targets_to_search(None, asked["region"]), say)
    try:
        rate = read_run(found)
    except (CannotEstimate, TooShort) as error:
        say(f"without an estimate: {error.message}")
        return run_page(found.run, list(logs.follow_lines(found, Wanted(), to_end=False)))
    where, own = rate.place(rates()), rate.asked
    rows = measurements(without_run=(rate.found.run.name, rate.found.run.id))
    known = find_calibration(rows, own)
    made = throughput(own.model, own.cluster, own.layout, known.calibration)
    run = RunBesideEstimate(
        name=rate.found.run.name,
        nodes=own.cluster.nodes,
        measured=rate.sequences_per_second,
        steps=rate.steps,
        curve=rate.curve,
        predicted=made.sequences_per_second,
        predicted_word=known.predicted_word,
        predicted_band=band_of(made.spread),
        devices=own.cluster.devices,
        instance_type=own.instance,
        is_of_the_yard=aws.is_in_yard(),
    )
    places = find_places((), region=asked["region"], term=asked["term"])
    estimated = estimate_places(rate.workload, places, asked["nodes"], rows)
    sizes = _sizes(rate.workload, where, asked["nodes"], rows)
    return job_page(rate.workload, where, sizes, _compared(places, estimated), run)


def _usual_place(places: Sequence[PricedHardware], found: Sequence[Estimate]) -> PricedHardware:
    """Choose the place where it was measured, else a declared cluster, else the cheapest place."""
    measured = {each.place for each in found if each.word != "predicted"}
    declared = {place.name for place in places if place.name != place.instance.name}
    able = {each.place for each in found}
    cheapest = min(found, key=scale_of(found).cost).place
    for wanted in (measured & declared, measured, declared & able, {cheapest}):
        if wanted:
            return next(place for place in places if place.name in wanted)
    raise AssertionError("the cheapest is one of the places")


def _sizes(
    workload: Workload, place: PricedHardware, nodes: tuple[int, ...] | None, rows: Sequence[Measurement]
) -> list[Estimate]:
    """Estimate the requested layout at each size that can run it, so that the points form one line."""
    sizes = nodes or tuple(size for size in SIZES if size <= place.most_nodes)
    found, refused = estimate_what_works(workload, place, sizes, rows)
    for error in refused.values() if nodes else ():
        warn(f"left out: {error.message}; {error.hint}")
    return found


def _compared(places: Sequence[PricedHardware], found: Sequence[Estimate]) -> Comparison:
    return Comparison(
        estimates=found,
        verdicts=verdicts(found),
        priced_at={
            place.name: f"{place.rate.term}, {place.rate.region}, {place.rate.date}"
            for place in places
            if place.rate
        },
    )
