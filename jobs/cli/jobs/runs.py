"""`slipway runs`: past and present jobs, how long they ran and what they cost."""

from __future__ import annotations

from dataclasses import asdict

import click

from slipway.jobs.cli.options import only_target_option, region_option
from slipway.jobs.output import Column, json_option, print_table, say
from slipway.jobs.words.text import moment

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
@only_target_option
@region_option
@json_option
def command(target: str | None, region: str | None, as_json: bool) -> None:
    """List past and present jobs: recipe, nodes, state, hours, and cost at on-demand prices.

    AWS Batch forgets a job a week after its end, Systems Manager after a month. Hours and cost cover all
    attempts; AWS bills machines from their start to their end, which is some minutes more. Unknown values are
    shown as unknown.

    \b
    slipway runs
    slipway runs --on dl1 --json
    """
    from slipway.jobs.submit.find import list_runs, targets_to_search

    runs = list_runs(targets_to_search(target, region))
    print_table(
        "runs, newest first, prices on demand", COLUMNS, [asdict(run) for run in runs], as_json=as_json
    )
    known = [run.cost.usd for run in runs if run.cost.usd is not None]
    if runs:
        unknown = f"; {len(runs) - len(known)} more of unknown cost" if len(known) < len(runs) else ""
        say(f"{len(known)} runs for {sum(known):.2f} USD{unknown}")
