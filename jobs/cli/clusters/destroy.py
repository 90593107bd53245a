"""`slipway destroy`: destroys a cluster without losing a job, and says what stays and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from slipway.jobs.cli.which_project import say_project
from slipway.jobs.output import can_ask, progress, say
from slipway.jobs.words.errors import SlipwayError

if TYPE_CHECKING:
    from slipway.jobs.words.targets import Target


@click.command()
@click.argument("cluster")
@click.option("--cancel", is_flag=True, help="Cancel its jobs first; each gets 30 seconds to save.")
@click.option("--yes", is_flag=True, help="Do not ask for the cluster's name.")
def command(cluster: str, cancel: bool, yes: bool) -> None:
    """Destroy the stacks of a deployed CLUSTER, after its jobs have ended.

    `cdk destroy` asks nobody: it takes the machines from under a job that trains. This command refuses while
    a job runs, or cancels it with --cancel and waits until it has saved. It stops the machines, empties a
    bucket that goes with its stack, and destroys the cluster's own stacks. Data that was deployed with
    keep_data=true stays: slipway leftovers lists it and what it costs.

    \b
    slipway destroy dl1
    slipway destroy dl1 --cancel
    """
    from slipway.jobs.cloud.deployed import find_targets
    from slipway.jobs.cloud.owners import refuse_foreign
    from slipway.jobs.clusters.destroying import keeps_its_data, refuse_unready

    target = next((target for target in find_targets(None)[0] if target.name == cluster), None)
    if target is None:
        _destroy_rest(cluster)
        return
    say_project()
    refuse_unready()
    refuse_foreign(cluster, target.region)
    if not cancel:
        _refuse_running(target)
    keeps = keeps_its_data(target)
    if not yes:
        _ask(cluster, keeps=keeps)
    _take_apart(target, keeps=keeps)
    if keeps:
        say(f"its data stays, and costs: slipway leftovers {cluster}")


def _refuse_running(target: Target) -> None:
    from slipway.jobs.platforms.running import StillRuns, refuse_running

    try:
        refuse_running(target)
    except StillRuns as running:
        raise StillRuns(
            f"{running.message}, so nothing was destroyed",
            hint=f"wait, or cancel it and let it save: slipway destroy {target.name} --cancel",
        ) from None


def _take_apart(target: Target, *, keeps: bool) -> None:
    from slipway.jobs.cloud.aws import Unanswered
    from slipway.jobs.cloud.deployed import count_running_nodes
    from slipway.jobs.clusters.destroying import cancel_all, destroy_stacks
    from slipway.jobs.clusters.emptying import empty
    from slipway.jobs.platforms.mpi.halting import halt
    from slipway.jobs.words.targets import MpiTarget

    with progress(f"ending the jobs and machines of {target.name}") as now:
        for run in cancel_all(target, now):
            say(f"{run.name} was cancelled; its checkpoints {'stay' if keeps else 'go with the cluster'}")
        if isinstance(target, MpiTarget):
            halt(target, now)
    if not keeps:
        with progress(f"emptying {target.bucket}") as now:
            empty(target, lambda count: now(f"{count} versions deleted"))
    destroy_stacks(target.name, target.region)
    nodes = count_running_nodes(target.name, target.region)
    said = "nobody knows how many" if isinstance(nodes, Unanswered) else str(nodes)
    say(f"{target.name} is destroyed; {said} of its machines run")


def _destroy_rest(cluster: str) -> None:
    """Finish what an earlier run began: the record of a target goes with the first of its stacks."""
    from slipway.infra.declare.declared import declared_cluster
    from slipway.jobs.cloud.owners import refuse_foreign
    from slipway.jobs.clusters.destroying import destroy_stacks

    region = declared_cluster(cluster).region
    refuse_foreign(cluster, region)
    if not destroy_stacks(cluster, region):
        raise SlipwayError(f"no cluster named '{cluster}' is deployed", hint="slipway targets lists them")
    say(f"what was left of {cluster} is destroyed")


def _ask(cluster: str, *, keeps: bool) -> None:
    if not can_ask():
        raise SlipwayError(
            f"{cluster} would be destroyed, and without a terminal nobody can be asked",
            hint=f"slipway destroy {cluster} --yes",
        )
    lost = "" if keeps else ", and lose everything in its bucket and its files forever"
    typed = click.prompt(f"Destroy {cluster}{lost}? Type its name", default="", show_default=False, err=True)
    if typed != cluster:
        raise click.Abort
