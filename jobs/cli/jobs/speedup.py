"""`slipway speedup`: how much faster a recipe was on more nodes, next to published and estimated figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from slipway.jobs.cli.estimates.formats import percent, rounded
from slipway.jobs.cli.options import region_option
from slipway.jobs.output import Column, json_option, print_table, say, warn

if TYPE_CHECKING:
    from slipway.jobs.submit.speedup import Line
    from slipway.jobs.words.run import AnyFound


def _times(value: object) -> str:
    assert isinstance(value, int | float)
    return f"{value:.2f} ×"


COLUMNS = (
    Column(name="nodes", align="right"),
    Column(name="seconds", unit="s", align="right", format=rounded(0)),
    Column(name="examples_per_second", title="examples/s", align="right", format=rounded(1)),
    Column(name="speedup", title="speed-up", align="right", format=_times),
    Column(name="efficiency", align="right", format=percent),
    Column(name="published", align="right", absent="-", format=_times),
    Column(name="estimated", align="right", absent="-", format=_times),
    Column(name="plot", title="█ measured  ◆ estimated  │ ideal"),
)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="RECIPE|JOB…")
@click.option("--on", "target", metavar="TARGET", help="Cluster of the runs; required for a recipe.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of the runs to compare. Repeatable.",
)
@region_option
@json_option
def command(
    names: tuple[str, ...],
    target: str | None,
    settings: tuple[str, ...],
    region: str | None,
    as_json: bool,
) -> None:
    """Compare finished runs of a RECIPE on 1, 2, 4 … nodes, or compare the named JOBs.

    Only runs with the same settings are compared: those of --set, or else the settings that ran at the most
    sizes. The newest run of each size counts. The speed-up compares examples per second after the warm-up;
    the seconds are those of the whole job. "published" is the speed-up that an article measured on such a
    cluster; "estimated" is what slipway estimate predicts for this one.

    \b
    slipway speedup glue_finetune --on c6i
    slipway speedup glue-one glue-two glue-four --json
    """
    found = (
        _of_recipe(names[0], target, settings, region)
        if _is_recipe(names)
        else _of_jobs(names, target, region)
    )
    lines, source = _compared(found)
    first = found[0].run
    title = f"{first.recipe} on {first.target}, {first.instance_type}"
    print_table(title, COLUMNS, [asdict(line) for line in lines], as_json=as_json)
    _tell(found, lines, source)


def _is_recipe(names: Sequence[str]) -> bool:
    from slipway.jobs.words.recipes import RECIPES

    return len(names) == 1 and names[0] in RECIPES


def _of_recipe(
    recipe: str, target: str | None, settings: tuple[str, ...], region: str | None
) -> list[AnyFound]:
    from slipway.jobs.submit.find import find_run, list_runs, targets_to_search
    from slipway.jobs.submit.speedup import chosen
    from slipway.jobs.words.job import parse_settings

    if target is None:
        raise click.UsageError(
            "--on is missing; name the cluster of the runs: slipway speedup RECIPE --on TARGET"
        )
    targets = targets_to_search(target, region)
    ids = [run.id for run in list_runs(targets) if run.recipe == recipe and run.state.is_final]
    finished = [find_run(id_, targets) for id_ in ids]
    return chosen(finished, recipe, parse_settings(settings), target)[1]


def _of_jobs(names: Sequence[str], target: str | None, region: str | None) -> list[AnyFound]:
    from slipway.jobs.submit.find import find_run, targets_to_search
    from slipway.jobs.submit.rate import settings_of
    from slipway.jobs.submit.speedup import NothingToCompare, submit_line

    targets = targets_to_search(target, region)
    found = sorted((find_run(name, targets) for name in names), key=lambda each: each.run.nodes or 0)
    first = found[0]
    for each in found[1:]:
        same = (each.run.recipe, each.run.target, settings_of(each.detail))
        if same != (first.run.recipe, first.run.target, settings_of(first.detail)):
            raise NothingToCompare(
                f"jobs '{first.run.name}' and '{each.run.name}' differ in more than the number of nodes",
                hint="compare runs of one recipe with the same settings on one target",
            )
    if first.run.nodes != 1:
        line = submit_line(first.run.recipe or "", first.run.target, 1, settings_of(first.detail))
        raise NothingToCompare("none of these jobs ran on one node", hint=f"submit it: {line}")
    return found


def _compared(found: Sequence[AnyFound]) -> tuple[list[Line], str]:
    from slipway.jobs.estimate.errors import CannotEstimate
    from slipway.jobs.estimate.inputs.own_data import measurements, rates
    from slipway.jobs.estimate.inputs.places import alone
    from slipway.jobs.estimate.inputs.workloads import recipe_workload
    from slipway.jobs.submit.logs import Wanted, follow_lines
    from slipway.jobs.submit.rate import settings_of
    from slipway.jobs.submit.speedup import compare, estimated_speedups, published_speedups, sample
    from slipway.jobs.words.catalogue.instances import instance_type

    samples = [
        sample(each, [line.text for line in follow_lines(each, Wanted(rank=0), to_end=False)])
        for each in found
    ]
    run = found[0].run
    source, published, estimated = "", dict[int, float](), dict[int, float]()
    try:
        workload = recipe_workload(run.recipe or "", settings_of(found[0].detail))
        place = alone(instance_type(run.instance_type), rates(), region=None, term="on-demand")
        source, published = published_speedups(workload, run.instance_type)
        estimated = estimated_speedups(workload, place, [each.nodes for each in samples], measurements())
    except CannotEstimate as error:
        warn(f"no estimate: {error.message}")
    return compare(samples, published, estimated), source


def _tell(found: Sequence[AnyFound], lines: Sequence[Line], source: str) -> None:
    """Say on stderr what the numbers are based on, and what is missing."""
    import os

    from slipway.jobs.cloud.aws import is_in_yard
    from slipway.jobs.submit.rate import LEAST_STEPS, settings_of
    from slipway.jobs.submit.speedup import submit_line

    if source:
        say(f"published: {source}")
    for each in lines:
        if each.is_short:
            warn(
                f"job '{each.job}' reported fewer than {LEAST_STEPS} steps after its warm-up, "
                "so its speed-up is uncertain"
            )
    if is_in_yard():
        warn(
            f"all nodes of the yard share this machine's {os.cpu_count()} processors: speed-ups measured "
            "here mean nothing; estimated and published ones are of real nodes"
        )
    missing = next((nodes for nodes in (2, 4) if nodes not in {line.nodes for line in lines}), None)
    if missing:
        run, settings = found[0].run, settings_of(found[0].detail)
        say(f"for another size: {submit_line(run.recipe or '', run.target, missing, settings)}")
