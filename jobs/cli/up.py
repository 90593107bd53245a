"""`slipway up`: brings a declared cluster to the state in which it accepts jobs, in one command."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from slipway.infra.declare.declared import declared_cluster
from slipway.infra.declare.types import Cluster
from slipway.jobs.cli.options import cluster_argument, say_project
from slipway.jobs.cloud.aws import answered
from slipway.jobs.cloud.deployed import NotDeployed, find_target_by_name
from slipway.jobs.clusters.bill import standing_items, total_usd_per_month
from slipway.jobs.clusters.cdk import find_cdk
from slipway.jobs.clusters.preflight.checks import CHECKS
from slipway.jobs.clusters.preflight.facts import gather
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
from slipway.jobs.clusters.raising import Step, carry_out, missing_steps, synthesize
from slipway.jobs.output import ask, can_ask, progress, refuse_unasked, say, warn
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import find_containers
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import money

# Checks whose problems `up` solves itself, or that only pass once something is deployed.
_LATER = frozenset({"vCPU quota", "CDK bootstrap", "machine image", "locked versions", "container image"})
_NO_OBSTACLE = frozenset({"alert e-mail", "cost allocation tag"})  # nothing tells of a cost, and all works


@click.command()
@cluster_argument
@click.option("--yes", is_flag=True, help="Do not ask before anything is created.")
@click.option("--dry-run", is_flag=True, help="Say what is missing and what it costs, and do nothing.")
def up_command(cluster: str, yes: bool, dry_run: bool) -> None:
    """Bring CLUSTER up: do what is missing, from the CDK's bootstrap to its stacks.

    It says what is missing and what the cluster costs, asks once, and runs the commands that you could type
    one by one. After an interruption, the same command does what is left. No node starts before a job.

    \b
    slipway up my-cluster
    slipway up my-cluster --dry-run
    """
    say_project()
    _bring_up(declared_cluster(cluster), yes=yes, dry_run=dry_run)


def deployed_or_offered(cluster: str, region: str | None, *, is_trial: bool) -> Target:
    """Return the deployed cluster; at a terminal, offer to bring up one that is only declared."""
    try:
        return find_target_by_name(cluster, region)
    except NotDeployed as missing:
        if is_trial or not missing.is_declared or not can_ask():
            raise
        say(f"{missing.message}; it is declared, and this brings it up first")
    _bring_up(declared_cluster(cluster), yes=False, dry_run=False)
    return find_target_by_name(cluster, region)


def _bring_up(declared: Cluster, *, yes: bool, dry_run: bool) -> None:
    find_cdk()
    cluster = declared.name
    facts = gather(declared, find_containers())
    account = answered(facts.account, "sign in to AWS, or use the yard: slipway yard up")
    for name, check in CHECKS.items():
        verdict = check(declared, facts)
        if name in _LATER or verdict.outcome is not CheckOutcome.FAILED:
            continue
        if name not in _NO_OBSTACLE:
            raise SlipwayError(f"{name}: {verdict.found}", hint=verdict.fix)
        warn(f"{name}: {verdict.found}; {verdict.fix}")
    steps = missing_steps(declared, facts)
    with TemporaryDirectory(prefix="slipway-") as folder:
        with progress(f"checking the templates of {cluster}"):
            templates = synthesize(declared, Path(folder))
        idle = total_usd_per_month(standing_items(templates, declared.region))
        _say_all(declared, account, steps, idle)
        if dry_run:
            return
        if not yes:
            refuse_unasked(f"{cluster} would be brought up", f"slipway up {cluster} --yes")
            ask("Do it?")
        for number, step in enumerate(steps, 1):
            _do(step, f"{number}/{len(steps)}", declared, Path(folder))
    say(f"{cluster} takes jobs: slipway run --on {cluster} --nodes 1 -- python train.py")


def _say_all(cluster: Cluster, account: str, steps: tuple[Step, ...], idle: float) -> None:
    type_ = instance_type(cluster.instance_type)
    known = type_.price
    price = f"{money(known.usd_per_hour)} USD/h ({known.date})" if known else "at no known price"
    say(f"{cluster.name} in account {account}, {cluster.region}")
    for step in steps:
        say(f"  {step.words}    # {step.why}")
    say(f"costs {money(idle)} USD a month while nothing runs, and what is stored")
    say(f"and while a job runs, up to {cluster.max_nodes} nodes of {type_.name} at {price} each")


def _do(step: Step, number: str, cluster: Cluster, folder: Path) -> None:
    from slipway.jobs.cli.cli import run

    started = time.monotonic()
    say(f"step {number}: {step.words}")
    if step.command[0] == "slipway":
        code = run(step.command[1:])
        if code:
            again = f"then go on: slipway up {cluster.name}"
            raise SlipwayError(f"{step.words} ended with {code}", hint=again)
    else:
        carry_out(step, cluster, folder)
    say(f"step {number}: done after {time.monotonic() - started:.0f} s")
