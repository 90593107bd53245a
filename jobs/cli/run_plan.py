"""`slipway plan run`: submits each job of a plan in its turn, and plans again when something differs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slipway.jobs.cli.estimate_views import hours
from slipway.jobs.cli.options import confirm_cost_option
from slipway.jobs.output import Column, can_ask, json_option, print_table, say
from slipway.jobs.plan.search.model import SWITCH_SECONDS
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.run import SECONDS_PER_HOUR, UNKNOWN
from slipway.jobs.words.text import money

if TYPE_CHECKING:
    from slipway.jobs.plan.run.journal import HappenedEvent, Ledger
    from slipway.jobs.plan.run.running import PlanRun
    from slipway.jobs.plan.search.model import Plan
    from slipway.jobs.words.run import Agreed


RUN_PLAN_COLUMNS = (
    Column(name="job"),
    Column(name="ended"),
    Column(name="attempts", align="right"),
    Column(name="cluster"),
    Column(name="technique"),
    Column(name="devices", align="right"),
    Column(name="planned_hours", title="planned", align="right", format=hours),
    Column(name="hours", title="took", align="right", format=hours),
    Column(name="why", absent=""),
)


class PlanFailed(SlipwayError):
    """Reports that not every job of a plan succeeded."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What was done, a line each. Default: the plan's name with .journal behind it.",
)
@click.option(
    "--switch-seconds",
    type=click.IntRange(min=0),
    default=SWITCH_SECONDS,
    show_default=True,
    help="Time to stop a job, save it and begin elsewhere. One moves only if that gains over twice as much.",
)
@confirm_cost_option
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw what ran beside the plan, again with each thing that happens.",
)
@json_option
def plan_run_command(
    file: Path,
    journal: Path | None,
    switch_seconds: int,
    confirm_cost: str,
    page: Path | None,
    as_json: bool,
) -> None:
    """Run the plan of FILE, which `slipway plan make --output` wrote, on the clusters of its pools.

    Each job is submitted when its turn comes, as `slipway submit` would. The remaining jobs are planned again
    when a job ends, fails or is cancelled, when one takes 10 % more or less than its estimate, and when a
    node is lost. Ctrl-C leaves the jobs running: the same command continues from there, and submits nothing
    twice.

    \b
    slipway plan make sweep.toml --output plan.json
    slipway plan run plan.json
    """
    from slipway.jobs.plan.inputs.plan_json import read_plan
    from slipway.jobs.plan.run.clusters import ClusterExecutor, completed, refuse_unrunnable, world_of
    from slipway.jobs.plan.run.journal import PlanJournal
    from slipway.jobs.plan.run.running import PlanRun
    from slipway.jobs.words.run import parse_agreed

    plan = read_plan(file, may_grow=True)
    refuse_unrunnable(plan)
    _agree(plan, file, parse_agreed(confirm_cost))
    kept = PlanJournal(journal or file.with_name(f"{file.name}.journal"))
    with kept.opened() as events:
        began = events[0].at if events else time.time()
        tag = f"{file.stem}-{int(began)}"
        executor = ClusterExecutor(pools=plan.pools, tag=tag, say=say, complete=completed)
        world = world_of(executor, kept, began, partial(_draw, plan, page), switch_seconds)
        ledger = _finish(plan, PlanRun(plan, world, events), events)
    rows = rows_of(plan, ledger)
    print_table(f"plan of {file}", RUN_PLAN_COLUMNS, rows, as_json=as_json)
    ends = [stint.ended for standing in ledger.jobs.values() for stint in standing.stints]
    took = hours((max(ends, default=ledger.began) - ledger.began) / SECONDS_PER_HOUR)
    again = f", planned again {ledger.plans - 1} times" if ledger.plans > 1 else ""
    say(f"all of it took {took}; the first plan said {hours(plan.makespan / SECONDS_PER_HOUR)}{again}")
    if wrong := [row for row in rows if row["ended"] != "succeeded"]:
        named = next((row for row in wrong if row["run"]), wrong[0])
        raise PlanFailed(
            f"not every job succeeded: {', '.join(str(row['job']) for row in wrong)}",
            hint=f"slipway explain {named['run'] or named['job']}",
        )


def _agree(plan: Plan, file: Path, agreed: Agreed) -> None:
    """Ask for consent to the plan's cost, or refuse it."""
    from slipway.jobs.plan.run.clusters import amount_beyond
    from slipway.jobs.submit.submission import Unconfirmed

    if not (amount := amount_beyond(plan, agreed)):
        return
    words = f"the plan of {file} costs {amount}, and you agreed to {money(agreed.usd)} USD at most"
    if not (can_ask() and click.confirm(f"{words}; run it?", err=True)):
        if all(pool.price_per_hour for pool in plan.pools):
            hint = f"--confirm-cost {math.ceil(plan.dollars)}, or a plan with a smaller --budget"
        else:
            hint = f"--confirm-cost {UNKNOWN}, or give each pool its price_per_hour and plan again"
        raise Unconfirmed(words, hint=hint)


def _draw(plan: Plan, path: Path | None, ledger: Ledger) -> None:
    """Write the page atomically, if one is wanted: a browser may read it at any moment."""
    if path is None:
        return
    from slipway.jobs.plan.plan_page import plan_page
    from slipway.jobs.plan.run.journal import what_ran
    from slipway.jobs.platforms.on_nodes import write_whole
    from slipway.jobs.report.page import render

    try:
        write_whole(path, render(plan_page(plan, [*what_ran(ledger, time.time())])))
    except OSError as error:
        say(f"the picture {path} cannot be written: {error.strerror}")


def _finish(plan: Plan, run: PlanRun, events: Sequence[HappenedEvent]) -> Ledger:
    from slipway.jobs.plan.run.clusters import refuse_unfit_commands

    if events:
        say(f"going on with what {len(events)} lines of the journal say")
    else:
        refuse_unfit_commands(plan)
    try:
        return run.finish()
    except BaseException:
        say("its jobs go on; the same command goes on with the plan")
        raise


def rows_of(plan: Plan, ledger: Ledger) -> list[dict[str, object]]:
    """Return a row for each job: what became of it, and what the first plan said."""
    first = {each.job: each for each in plan.assignments}
    rows = []
    for job in plan.jobs:
        standing, planned = ledger.jobs[job.name], first.get(job.name)
        last = standing.stints[-1].assignment if standing.stints else planned
        pool = plan.pools[last.pool] if last else None
        rows.append(
            {
                "job": job.name,
                "ended": str(standing.stage),
                "attempts": standing.attempt,
                "cluster": (pool.cluster or pool.type) if pool else None,
                "technique": last.mode.technique if last else None,
                "devices": last.mode.devices if last else None,
                "planned_hours": planned.seconds / SECONDS_PER_HOUR if planned else None,
                "hours": sum(stint.ended - stint.began for stint in standing.stints) / SECONDS_PER_HOUR,
                "run": standing.run,
                "why": standing.why or None,
            }
        )
    return rows
