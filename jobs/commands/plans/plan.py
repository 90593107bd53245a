"""`slipway plan`: which job runs where, when and split over which devices, and how good that is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slipway.jobs.commands.output import json_option, print_json, progress, say, warn
from slipway.jobs.core.errors import SlipwayError

if TYPE_CHECKING:
    from slipway.jobs.planner.model import Plan
    from slipway.jobs.planner_inputs.files import PlanFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Holds what is asked of the planner, as the options say it."""

    objective: str
    deadline: int | None
    budget: float | None
    billing: str
    time_limit: float
    gap: float
    seed: int


def duration(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    from slipway.jobs.planner_inputs.durations import RULE, parse_duration

    if text is None:
        return None
    seconds = parse_duration(text)
    if seconds is None or seconds < 1:
        raise click.BadParameter(f"'{text}' is no time of a second or more; {RULE}")
    return seconds


def finite(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--objective",
    type=click.Choice(["makespan", "cost"]),
    default="makespan",
    show_default=True,
    help="What to make small: the time until all jobs have ended, or the dollars.",
)
@click.option("--deadline", callback=duration, metavar="TIME", help="End by then: 24h, 90m or seconds.")
@click.option(
    "--budget", type=click.FloatRange(min=0), callback=finite, metavar="USD", help="Spend at most this."
)
@click.option(
    "--billing",
    type=click.Choice(["device", "node"]),
    default="device",
    show_default=True,
    help="Pay for a job's devices, or for each node from its first job's start to its last job's end.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, max=86_400),
    callback=finite,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Search no longer than this.",
)
@click.option(
    "--gap",
    type=click.FloatRange(min=0),
    callback=finite,
    default=1.0,
    show_default=True,
    metavar="PERCENT",
    help="Stop when the plan is proven to be this near to the best.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the search.")
@click.option(
    "--output",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the plan with its jobs and pools as JSON.",
)
@json_option
def command(file: Path, output: Path | None, as_json: bool, **asked: object) -> None:
    """Plan the jobs of FILE over its pools: modes, devices and start times together, with a proof.

    FILE is JSON: jobs with their modes (technique, instance type, devices, seconds), and pools of nodes.
    docs/planner.md has the format. The plan is checked by what knows nothing of the search before it is
    shown. The lower bound says what no plan is better than, and the gap how far this one may be from the
    best. Ctrl-C ends the search and keeps the best plan so far. Nothing is submitted.

    \b
    slipway plan jobs.json
    slipway plan jobs.json --objective cost --deadline 24h
    slipway plan jobs.json --time-limit 10 --json
    """
    from slipway.jobs.commands.plans.plan_table import print_plan
    from slipway.jobs.planner_inputs.files import read_plan_file
    from slipway.jobs.planner_inputs.plan_json import answer, encode_plan

    search = Search(**asked)  # type: ignore[arg-type]  # click gives each option's type
    inputs = read_plan_file(file)
    _tell(inputs, search)
    plan = _search(inputs, search)
    if output is not None:
        write_file(output, encode_plan(plan))
    if as_json:
        print_json(answer(plan))
    else:
        print_plan(plan)


def write_file(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SlipwayError(f"{path}: {error.strerror}", hint="name a file that you can write") from None
    say(f"written to {path}, {len(text) >> 10} KiB")


def _tell(inputs: PlanFile, search: Search) -> None:
    """Warn of what was passed over; refuse dollars as a goal where a price is missing."""
    from slipway.jobs.planner.refusals import CannotPlan

    for note in inputs.notes:
        warn(note)
    if inputs.unpriced and (search.objective == "cost" or search.budget is not None):
        raise CannotPlan(
            f"no price of {', '.join(inputs.unpriced)} is known, and the goal is in dollars",
            hint="give each pool its price_per_hour",
        )


def _search(inputs: PlanFile, search: Search) -> Plan:
    """Search with progress on stderr; an interrupt keeps the best plan, if there is one."""
    from slipway.jobs.planner.words import progress_words
    from slipway.jobs.planner_inputs.planning import plan

    best: list[Plan] = []
    with progress(f"planning {len(inputs.jobs)} jobs") as now:

        def found(better: Plan) -> None:
            best[:] = [better]
            now(progress_words(better))

        try:
            return plan(
                inputs.jobs,
                inputs.pools,
                objective=search.objective,
                deadline=search.deadline,
                budget=search.budget,
                billing=search.billing,
                time_limit=search.time_limit,
                target_gap=search.gap / 100,
                seed=search.seed,
                progress=found,
            )
        except KeyboardInterrupt:
            if not best:
                raise
            return replace(best[0], stopped="interrupted")
