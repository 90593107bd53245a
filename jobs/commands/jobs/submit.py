"""`slipway submit`: submits a recipe to a deployed cluster, exactly once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from slipway.jobs.commands.options import confirm_cost_option, dry_run_option, target_region_option
from slipway.jobs.commands.output import Column, can_ask, json_option, print_json, print_record, say, warn
from slipway.jobs.commands.which_project import say_project

if TYPE_CHECKING:
    from slipway.jobs.core.cost import Agreed, Cost
    from slipway.jobs.core.job import Job
    from slipway.jobs.platforms.prepared import AnyPrepared
    from slipway.jobs.submit.submission import Submitted

COLUMNS = (
    Column(name="name"),
    Column(name="id"),
    Column(name="state"),
    Column(name="target"),
    Column(name="recipe"),
    Column(name="nodes"),
    Column(name="waits_for", absent="no job"),
    Column(name="image"),
    Column(name="image_digest", absent="not pushed"),
    Column(name="timeout_hours", title="timeout of an attempt", unit="h"),
    Column(name="attempts", title="attempts at most"),
    Column(name="ceiling.usd", title="costs at most", unit="USD"),
    Column(name="ceiling.price.usd_per_hour", title="price of a node on demand", unit="USD/h"),
    Column(name="ceiling.price.region", title="price region"),
    Column(name="ceiling.price.date", title="price date"),
)


@click.command()
@click.argument("recipe")
@click.option(
    "--on", "target", required=True, metavar="TARGET", help="Deployed cluster; slipway targets lists them."
)
@click.option("--nodes", type=int, required=True, help="Number of nodes.")
@click.option(
    "--array",
    metavar="0-LAST[%MOST]",
    help="Number of jobs that divide the work, and how many run at a time, on Slurm: 0-15%4.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the recipe. Repeatable."
)
@click.option("--name", help="Name of the job; a digest is appended. Default: the recipe's name.")
@click.option(
    "--data",
    metavar="PATH",
    help="Path or URL of the data; a relative path is one in the shared file system.",
)
@click.option(
    "--checkpoints", metavar="PATH", help="Path or URL to save to and to resume from; relative as for --data."
)
@click.option("--processes-per-node", type=int, help="Processes per node. Default: one per device.")
@click.option(
    "--timeout-hours", type=float, help="Time limit of an attempt in hours. Default: the cluster's limit."
)
@click.option("--attempts", type=int, help="Maximum number of attempts. Default: the cluster's.")
@click.option(
    "--depends-on",
    multiple=True,
    metavar="JOB",
    help="Job on the same cluster that must succeed first. Repeatable.",
)
@target_region_option
@confirm_cost_option
@click.option("--again", is_flag=True, help="Submit the job once more, although it exists.")
@click.option(
    "--follow", is_flag=True, help="Print the job's log on stderr until the job ends; fail if the job fails."
)
@dry_run_option
@json_option
def command(
    target: str,
    region: str | None,
    confirm_cost: str,
    again: bool,
    dry_run: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Submit RECIPE (a folder of containers/recipes) to a deployed cluster.

    A job is submitted once, however often you run the command: a repeated or interrupted command finds the
    existing job. Settings reach the recipe exactly as typed; no shell interprets them. If the cluster keeps
    machines between jobs, missing machines are started first.

    \b
    slipway submit bert_pretrain --on dl1 --nodes 2 --set size=tiny --follow
    slipway submit bert_pretrain --on dl1 --nodes 16 --set phase=2 --dry-run
    slipway submit prepare_tokens --on trn1 --nodes 1 --array 0-15 --set input=text.jsonl
    slipway submit prepare_bert --on dl1 --nodes 2 --set sample_megabytes=2
    slipway submit bert_pretrain --on dl1 --nodes 2 --set size=tiny --depends-on prepare_bert
    """
    from slipway.jobs.core.cost import parse_agreed
    from slipway.jobs.submit.preparing import prepare

    agreed, follows = parse_agreed(confirm_cost), asked.pop("follow")
    prepared = prepare(_job(**asked), target, region)
    for warning in prepared.warnings:
        warn(warning)
    if dry_run:
        say_project()
        print_json(_decided(prepared))
        return
    _end(_submit(prepared, agreed, again=again), follow=follows, as_json=as_json)


def _job(
    recipe: str,
    nodes: int,
    settings: tuple[str, ...],
    name: str | None,
    timeout_hours: float | None,
    **others: Any,
) -> Job:
    """Build the job; `others` are fields of a job under the same names."""
    from slipway.jobs.core.job import Job, parse_settings

    return Job(
        name=recipe if name is None else name,
        recipe=recipe,
        nodes=nodes,
        settings=parse_settings(settings),
        timeout_seconds=None if timeout_hours is None else _seconds(timeout_hours),
        **others,
    )


def _seconds(hours: float) -> int:
    """Convert hours to seconds; refuse NaN and infinity, which click takes for numbers."""
    from slipway.jobs.core.cost import SECONDS_PER_HOUR

    if not math.isfinite(hours):
        raise click.BadParameter(f"{hours} is not a finite number of hours.", param_hint="'--timeout-hours'")
    return round(hours * SECONDS_PER_HOUR)


def _submit(prepared: AnyPrepared, agreed: Agreed, *, again: bool) -> Submitted:
    from slipway.jobs.submit.submission import submit_prepared

    try:
        submitted = submit_prepared(
            prepared, confirm=lambda name, ceiling: _confirm(name, ceiling, agreed), again=again, say=say
        )
    except KeyboardInterrupt:
        say("the job may or may not have been submitted; the same command finds out before it submits")
        raise
    if submitted.existed:
        say(f"{submitted.prepared.name} was submitted before; use --again to run it once more")
        if prepared.waits_for:
            say(f"its dependencies were set back then: slipway explain {submitted.prepared.name}")
    return submitted


def _confirm(name: str, ceiling: Cost, agreed: Agreed) -> None:
    """Ask at a terminal whether the cost is fine; without a terminal, refuse."""
    from slipway.jobs.submit.confirming import Unconfirmed, refuse_unconfirmed

    try:
        refuse_unconfirmed(name, ceiling, agreed)
    except Unconfirmed as refusal:
        if not can_ask():
            raise
        click.confirm(f"{refusal.message}. Submit it?", abort=True, err=True)


def _decided(prepared: AnyPrepared) -> Mapping[str, object]:
    return {
        "request": asdict(prepared.request),
        "target": prepared.target.name,
        "image_digest": prepared.image_digest,
        "waits_for": prepared.waits_for,
        "ceiling": asdict(prepared.ceiling),
        "warnings": prepared.warnings,
    }


def _end(submitted: Submitted, *, follow: bool, as_json: bool) -> None:
    """Print the record of the job; with --follow only after the job has ended."""
    from slipway.jobs.commands.jobs.logs import follow_to_end
    from slipway.jobs.runs.find import refresh

    if follow:
        say(f"{submitted.prepared.name} is {submitted.job_id}")
    found = refresh(submitted.job_id, submitted.prepared.target)
    run = follow_to_end(found, say) if follow else found.run
    print_record("", COLUMNS, _row(submitted, run.state.value), as_json=as_json)
    if follow and run.state.value != "succeeded":
        raise click.exceptions.Exit(1)


def _row(submitted: Submitted, state: str) -> Mapping[str, object]:
    from slipway.jobs.core.cost import SECONDS_PER_HOUR
    from slipway.jobs.core.launch_environment import timeout_seconds

    prepared = submitted.prepared
    job, target = prepared.job, prepared.target
    return {
        "name": prepared.name,
        "id": submitted.job_id,
        "existed": submitted.existed,
        "state": state,
        "target": target.name,
        "recipe": job.recipe,
        "nodes": job.nodes,
        "waits_for": prepared.waits_for or None,
        "image": prepared.image,
        "image_digest": prepared.image_digest,
        "timeout_hours": timeout_seconds(job, target) / SECONDS_PER_HOUR,
        "attempts": prepared.attempts,
        "ceiling": asdict(prepared.ceiling),
    }
