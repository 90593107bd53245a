"""`slipway plan make`: plans which job runs where, when and on how many devices, with a proof."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from slipway.jobs.cli.options import finite
from slipway.jobs.output import (
    Column,
    json_option,
    print_json,
    print_table,
    print_text,
    progress,
    refuse_unwritable,
    say,
    warn,
    write_file,
)
from slipway.jobs.plan.search.diff import (
    PlanDiff,
    clock,
    devices_by_node,
    dollars_of_job,
    summary,
)
from slipway.jobs.plan.search.explain import ModeExplanation
from slipway.jobs.plan.search.model import Plan
from slipway.jobs.plan.search.refusals import words_of
from slipway.jobs.words.text import dollars, money, printable

if TYPE_CHECKING:
    from slipway.jobs.plan.inputs.files import PlanFile


class PlanAsked(TypedDict):
    """Hold the values of the options."""

    objective: str
    deadline: int | None
    budget: float | None
    billing: str
    time_limit: float
    gap: float  # percent
    seed: int
    output: Path | None
    page: Path | None
    explained: str | None
    earlier: Path | None
    as_json: bool


def duration(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    from slipway.jobs.plan.inputs.files import RULE, parse_duration

    if text is None:
        return None
    seconds = parse_duration(text)
    if seconds is None or seconds < 1:
        raise click.BadParameter(f"'{text}' is no time of a second or more; {RULE}")
    return seconds


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
    help="Search no longer than this; 0 takes the first plan.",
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
    "-o",
    "--output",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the plan with its jobs and pools as JSON.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the plan as a picture: one HTML page that needs no network.",
)
@click.option(
    "--explain", "explained", metavar="JOB", help="Show why JOB has its mode, and what others cost."
)
@click.option(
    "--diff",
    "earlier",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Show what changed since the plan that --output wrote to FILE.",
)
@json_option
def plan_make_command(file: Path, **asked: Unpack[PlanAsked]) -> None:
    """Plan the jobs of FILE over its pools: modes, devices and start times together, with a proof.

    FILE is TOML, with recipes, grids of their settings and clusters, whose modes are estimated; or JSON, with
    jobs and their modes (technique, instance type, devices, seconds). docs/planner.md has both formats. Code
    that is independent of the search checks the plan before it is shown. No plan is better than the lower
    bound, and the gap says how far this plan may be from the best. Ctrl-C ends the search and keeps the best
    plan so far. Nothing is submitted.

    \b
    slipway plan make sweep.toml --output plan.json
    slipway plan make jobs.json --objective cost --deadline 24h
    slipway plan make jobs.json --time-limit 10 --json
    slipway plan make jobs.json --output plan.json --explain gpt2-0001
    slipway plan make jobs.json --diff plan.json --html plan.html
    """
    from slipway.jobs.plan.inputs.plan_json import encode_plan, read_plan
    from slipway.jobs.plan.plan_page import plan_page
    from slipway.jobs.plan.search.explain import refuse_stranger
    from slipway.jobs.report.page import render

    inputs = _read(file)
    for written in (asked["output"], asked["page"]):
        if written is not None:
            refuse_unwritable(written)
    if asked["explained"] is not None:
        refuse_stranger(asked["explained"], [job.name for job in inputs.jobs])
    earlier = read_plan(asked["earlier"]) if asked["earlier"] else None
    _tell(inputs, asked)
    plan = _search(inputs, asked)
    if asked["output"] is not None:
        write_file(asked["output"], encode_plan(plan))
    if asked["page"] is not None:
        write_file(asked["page"], render(plan_page(plan)))
    _show(plan, earlier, asked)


def _show(plan: Plan, earlier: Plan | None, asked: PlanAsked) -> None:
    from slipway.jobs.plan.inputs.plan_json import answer
    from slipway.jobs.plan.search.diff import diff
    from slipway.jobs.plan.search.explain import explain

    explanation = explain(plan, asked["explained"]) if asked["explained"] is not None else None
    changes = diff(plan, earlier) if earlier is not None else None
    if asked["as_json"]:
        more = {"explanation": explanation, "diff": changes}
        print_json({**answer(plan), **{name: value for name, value in more.items() if value is not None}})
        return
    print_plan(plan)
    if explanation is not None:
        print_explanation(explanation)
    if changes is not None:
        print_diff(changes)


def _read(file: Path) -> PlanFile:
    """Read a sweep of recipes, or jobs with given modes."""
    if file.suffix == ".toml":
        from slipway.jobs.plan.inputs.sweeps import read_sweep

        return read_sweep(file)
    from slipway.jobs.plan.inputs.files import read_plan_file

    return read_plan_file(file)


def _tell(inputs: PlanFile, asked: PlanAsked) -> None:
    """Warn of what was left out; refuse a goal in dollars if a price is missing."""
    from slipway.jobs.plan.search.explain import left_out
    from slipway.jobs.plan.search.refusals import CannotPlan

    for note in (*inputs.notes, *left_out(inputs.jobs)):
        warn(note)
    for price in inputs.priced:
        say(price)
    if inputs.unpriced and (asked["objective"] == "cost" or asked["budget"] is not None):
        raise CannotPlan(
            f"no price of {', '.join(inputs.unpriced)} is known, and the goal is in dollars",
            hint="give each pool its price_per_hour",
        )


def _search(inputs: PlanFile, asked: PlanAsked) -> Plan:
    """Search with progress on stderr; an interrupt keeps the best plan, if there is one."""
    from slipway.jobs.plan.inputs.planning import plan
    from slipway.jobs.plan.search.diff import progress_words

    best: list[Plan] = []
    with progress(f"planning {len(inputs.jobs)} jobs") as now:

        def found(better: Plan) -> None:
            best[:] = [better]
            now(progress_words(better))

        try:
            return plan(
                inputs.jobs,
                inputs.pools,
                objective=asked["objective"],
                deadline=asked["deadline"],
                budget=asked["budget"],
                billing=asked["billing"],
                time_limit=asked["time_limit"],
                target_gap=asked["gap"] / 100,
                seed=asked["seed"],
                progress=found,
            )
        except KeyboardInterrupt:
            if not best:
                raise
            return replace(best[0], stopped="interrupted")


# The tables of a plan: its jobs, why one has its mode, and what changed since another plan.
PLAN_TABLE_COLUMNS = (
    Column(name="job"),
    Column(name="technique"),
    Column(name="type"),
    Column(name="devices", align="right"),
    Column(name="nodes", title="on node: devices"),
    Column(name="start", align="right"),
    Column(name="end", align="right"),
    Column(name="usd", title="cost", unit="USD", align="right", format=dollars),
)
ALTERNATIVES = (
    Column(name="mode"),
    Column(name="time", align="right"),
    Column(name="error", title="within", align="right"),
    Column(name="device_hours", align="right"),
    Column(name="usd", title="cost", unit="USD", align="right", format=dollars),
    Column(name="makespan", title="the plan ends by", align="right"),
    Column(name="plan_usd", title="and costs", unit="USD", align="right", format=dollars),
    Column(name="note", title=" "),
)
CHANGES = (
    Column(name="job"),
    Column(name="difference", title="change"),
    Column(name="before"),
    Column(name="after"),
)


def print_plan(plan: Plan) -> None:
    placed = sorted(plan.assignments, key=lambda each: (each.pool, each.start, each.placement[0].node))
    rows = [
        {
            "job": each.job,
            "technique": each.mode.technique,
            "type": each.mode.type,
            "devices": each.mode.devices,
            "nodes": devices_by_node(each, plan.pools[each.pool]),
            "start": clock(each.start),
            "end": clock(each.end),
            "usd": dollars_of_job(plan, each),
        }
        for each in placed
    ]
    print_table("", PLAN_TABLE_COLUMNS, rows, as_json=False)
    print_text(summary(plan))


def print_explanation(found: ModeExplanation) -> None:
    each = found.assignment
    print_text(f"\n{printable(each.job)}: {words_of(each.mode)}, {clock(each.start)} to {clock(each.end)}")
    print_text(f"why: {found.why}")
    print_text(f"next best: {found.next_best}")
    rows = []
    for other in found.alternatives:
        mode = other.option.mode
        row = {
            "mode": words_of(mode),
            "time": clock(other.option.seconds),
            "error": f"± {mode.error:.0%}" if mode.error else mode.source,
            "device_hours": f"{other.device_hours:,.2f}",
            "usd": other.option.dollars,
            "makespan": clock(other.makespan),
            "plan_usd": other.dollars,
            "note": "chosen" if other.is_chosen else f"misses {other.misses}" if other.misses else "",
        }
        rows.append(row)
    print_table("", ALTERNATIVES, rows, as_json=False)


def print_diff(found: PlanDiff) -> None:
    print_text("")
    if found.changes:
        print_table("", CHANGES, [asdict(each) for each in found.changes], as_json=False)
    seconds = ("+" if found.makespan_seconds >= 0 else "-") + clock(abs(found.makespan_seconds))
    print_text(
        f"{len(found.changes)} jobs changed, {found.same} are as before; makespan {seconds}, "
        f"cost {'+' if found.dollars >= 0 else '-'}{money(abs(found.dollars))} USD"
    )
