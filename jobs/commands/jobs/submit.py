"""`slipway submit`: run a recipe on a deployed cluster, exactly once."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from slipway.jobs.commands.output import Column, is_terminal, json_option, print_json, print_record, say, warn

if TYPE_CHECKING:
    from slipway.jobs.core.cost import Agreed, Cost
    from slipway.jobs.core.job import Job
    from slipway.jobs.platforms.prepared import AnyPrepared
    from slipway.jobs.submit.submission import Submitted

_SECONDS_PER_HOUR = 3600

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
@click.option("--on", "target", required=True, metavar="TARGET", help="A deployed cluster: slipway targets.")
@click.option("--nodes", type=int, required=True, help="How many of its machines.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the recipe.")
@click.option("--name", help="The job's name; otherwise the recipe's. A digest of the job follows it.")
@click.option("--data", metavar="PATH", help="Where its data lie; relative to the files that nodes share.")
@click.option("--checkpoints", metavar="PATH", help="Where it saves, and resumes from; likewise.")
@click.option("--processes-per-node", type=int, help="Of every machine; otherwise one a device.")
@click.option("--timeout-hours", type=float, help="Of an attempt; otherwise as the cluster says.")
@click.option("--attempts", type=int, help="How often it may be tried; otherwise as the cluster says.")
@click.option("--depends-on", multiple=True, metavar="JOB", help="A job there that has to succeed first.")
@click.option("--region", help="The target's; otherwise your own, then those of the declared clusters.")
@click.option(
    "--confirm-cost",
    metavar="DOLLARS",
    envvar="SLIPWAY_CONFIRM_COST",
    default="100",
    show_default=True,
    show_envvar=True,
    help="What it may cost at most without a question, or 'unknown'. Nothing in the yard costs anything.",
)
@click.option("--again", is_flag=True, help="Run the same job once more although it exists.")
@click.option("--follow", is_flag=True, help="Print its log on stderr until it ends; fail if it fails.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent, as JSON, and send nothing.")
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

    The same job is submitted once, however often this runs: an interrupted or repeated command finds the job
    that exists. Settings reach the recipe as they are typed; no shell reads them. Where a cluster's machines
    stay between jobs, those that are missing are started and waited for.

    \b
    slipway submit bert_pretrain --on dl1 --nodes 2 --set size=tiny --follow
    slipway submit bert_pretrain --on dl1 --nodes 16 --set phase=2 --dry-run
    slipway submit prepare_bert --on dl1 --nodes 4 --set input=wikicorpus --set phase=1
    slipway submit bert_pretrain --on dl1 --nodes 2 --set size=tiny --depends-on prepare_bert
    """
    from slipway.jobs.core.cost import parse_agreed
    from slipway.jobs.submit.submission import prepare

    agreed, follows = parse_agreed(confirm_cost), asked.pop("follow")
    prepared = prepare(_job(**asked), target, region)
    for warning in prepared.warnings:
        warn(warning)
    if dry_run:
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
    """`others` are fields of a job under the same names."""
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
    """NaN and infinity are numbers to click."""
    if not math.isfinite(hours):
        raise click.BadParameter(f"{hours} is no number of hours.", param_hint="'--timeout-hours'")
    return round(hours * _SECONDS_PER_HOUR)


def _submit(prepared: AnyPrepared, agreed: Agreed, *, again: bool) -> Submitted:
    from slipway.jobs.submit.submission import submit_prepared

    try:
        submitted = submit_prepared(
            prepared, confirm=lambda name, ceiling: _confirm(name, ceiling, agreed), again=again, say=say
        )
    except KeyboardInterrupt:
        say("whether it was submitted is not known; the same command looks before it sends anything")
        raise
    if submitted.existed:
        say(f"{submitted.prepared.name} was submitted before; --again runs it once more")
        if prepared.waits_for:
            say(f"what it waits for was said then: slipway explain {submitted.prepared.name}")
    return submitted


def _confirm(name: str, ceiling: Cost, agreed: Agreed) -> None:
    """Asked at a terminal, refused without one."""
    from slipway.jobs.submit.confirming import Unconfirmed, refuse_unconfirmed

    try:
        refuse_unconfirmed(name, ceiling, agreed)
    except Unconfirmed as refusal:
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
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
    """With --follow the record comes last, when it is known how the job ended."""
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
        "timeout_hours": timeout_seconds(job, target) / _SECONDS_PER_HOUR,
        "attempts": prepared.attempts,
        "ceiling": asdict(prepared.ceiling),
    }
