"""`slipway runs`: what ran, how long and for how many dollars."""

from __future__ import annotations

from dataclasses import asdict

import click

from slipway.jobs.commands.output import Column, json_option, print_table, say
from slipway.jobs.core.text import moment

COLUMNS = (
    Column(name="name"),
    Column(name="state"),
    Column(name="target"),
    Column(name="recipe"),
    Column(name="nodes", align="right"),
    Column(name="created_at", title="created", format=moment),
    Column(name="hours", unit="h", align="right"),
    Column(name="cost.node_hours", title="node hours", unit="h", align="right"),
    Column(name="cost.usd", title="cost", unit="USD", align="right"),
    Column(name="cost.price.region", title="price region"),
    Column(name="cost.price.date", title="price date"),
)


@click.command()
@click.option("--on", "target", metavar="TARGET", help="Only of this cluster.")
@click.option("--region", help="Where to look; otherwise your own, then those of the declared clusters.")
@json_option
def command(target: str | None, region: str | None, as_json: bool) -> None:
    """List what ran: recipe, nodes, state, hours, and dollars by the catalogue's price on demand.

    AWS Batch keeps a job for a week after its end, Systems Manager for a month. Counted is the time of all
    attempts; machines are billed from their start to their end, which is some minutes more. What is not known
    reads as unknown.

    \b
    slipway runs
    slipway runs --on dl1 --json
    """
    from slipway.jobs.runs.find import list_runs, targets_to_search

    runs = list_runs(targets_to_search(target, region))
    print_table(
        "runs, newest first, prices on demand", COLUMNS, [asdict(run) for run in runs], as_json=as_json
    )
    known = [run.cost.usd for run in runs if run.cost.usd is not None]
    if runs:
        unknown = f", and {len(runs) - len(known)} of unknown cost" if len(known) < len(runs) else ""
        say(f"{len(known)} runs for {sum(known):.2f} USD{unknown}")
