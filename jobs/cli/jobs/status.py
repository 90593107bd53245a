"""`slipway status`: unfinished jobs, or one job in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from slipway.jobs.cli.options import only_target_option, region_option
from slipway.jobs.output import Column, json_option, print_record, print_table, say, warn
from slipway.jobs.words.run import not_succeeded
from slipway.jobs.words.text import moment

if TYPE_CHECKING:
    from slipway.jobs.words.run import Run
    from slipway.jobs.words.targets import Target

LISTED = (
    Column(name="name"),
    Column(name="id"),
    Column(name="state"),
    Column(name="target"),
    Column(name="recipe"),
    Column(name="nodes", align="right"),
    Column(name="hours", unit="h", align="right"),
    Column(name="waits_for", absent=""),
    Column(name="reason", absent=""),
)

IN_FULL = (
    *LISTED,
    Column(name="warning", absent=""),
    Column(name="status", title="AWS's word"),
    Column(name="exit_code", absent=""),
    Column(name="tries", title="attempts that ended"),
    Column(name="created_at", title="created", format=moment),
    Column(name="started_at", title="started", format=moment, absent="not yet"),
    Column(name="stopped_at", title="stopped", format=moment, absent="not yet"),
    Column(name="instance_type"),
    Column(name="image"),
    Column(name="image_digest"),
    Column(name="cost.usd", title="cost so far", unit="USD"),
    Column(name="cost.price.date", title="price date"),
)

NODES = (
    Column(name="target"),
    Column(name="name"),
    Column(name="instance_id", title="instance"),
    Column(name="main", title="main node"),
    Column(name="answered", title="ready"),
    Column(name="why", title="why not", absent=""),
)


@click.command()
@click.argument("job", required=False)
@only_target_option
@region_option
@click.option(
    "--nodes", is_flag=True, help="List the nodes that stay between jobs, and why a node is not ready."
)
@json_option
def command(job: str | None, target: str | None, region: str | None, nodes: bool, as_json: bool) -> None:
    """List unfinished jobs, or show JOB (its id or name, or the beginning of either) in full.

    \b
    slipway status
    slipway status bert_pretrain --json
    slipway status --on c6i --nodes
    """
    from slipway.jobs.platforms.platform import waiting_of
    from slipway.jobs.submit.find import find_run, list_runs, targets_to_search
    from slipway.jobs.submit.logs import find_warning

    targets = targets_to_search(target, region)
    if nodes:
        _print_nodes(targets, as_json=as_json)
        return
    if job is not None:
        found = find_run(job, targets)
        waiting = waiting_of(found.target)
        row = _row(found.run, waiting.find_dependencies_of(found.run, found.target) if waiting else [])
        print_record("", IN_FULL, {**row, "warning": find_warning(found)}, as_json=as_json)
        return
    runs = list_runs(targets)
    rows = [_row(run, runs) for run in runs if not run.state.is_final]
    print_table("unfinished jobs", LISTED, rows, as_json=as_json)
    if len(rows) < len(runs):
        say(f"{len(runs) - len(rows)} have ended: slipway runs")
    if target is not None:
        _say_nodes(targets[0])


def _print_nodes(targets: Sequence[Target], *, as_json: bool) -> None:
    rows = [
        {"target": target.name, **node} for target in targets for node in _say_nodes(target, in_full=False)
    ]
    print_table("nodes", NODES, rows, as_json=as_json)


def _say_nodes(target: Target, *, in_full: bool = True) -> Sequence[Mapping[str, object]]:
    """Say how many nodes are ready and, in full, why each other node is not; return all nodes."""
    from slipway.jobs.platforms.platform import missing_machines_of, nodes_of

    nodes = nodes_of(target)
    if nodes is None:
        return ()
    found = nodes.node_rows(target)
    silent = [each for each in found if not each["answered"]]
    say(f"{target.name}: {len(found) - len(silent)} of at most {target.max_nodes} nodes are ready")
    for each in silent if in_full else ():
        say(f"{each['name']} is not ready: {each['why']}")
    for what, fix in missing_machines_of(target):
        warn(f"{what}; {fix}" if fix else what)
    return found


def _row(run: Run, others: Sequence[Run]) -> Mapping[str, object]:
    """Describe a run; `others` are all runs that it may depend on."""
    awaited = [] if run.state.is_final else [other for other in others if other.id in run.depends_on]
    return {**asdict(run), "tries": len(run.attempts), "waits_for": not_succeeded(awaited) or None}
