"""`slipway cluster destroy` and `empty` remove a cluster and its data; `leftovers` lists what stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from slipway.infra.declare.declared import declared_cluster
from slipway.jobs.cli.completing import complete_cluster
from slipway.jobs.cli.options import cluster_argument, say_project
from slipway.jobs.cloud.aws import Unanswered, own_region
from slipway.jobs.cloud.deployed import count_running_nodes, find_targets, refuse_foreign
from slipway.jobs.clusters.destroying import (
    cancel_all,
    destroy_stacks,
    empty,
    keeps_its_data,
    refuse_kept,
    refuse_unready,
)
from slipway.jobs.clusters.leftovers.finders import LASTING, Leftover, LeftoverKind
from slipway.jobs.clusters.leftovers.removal import KEY_DAYS, find_leftovers, remove
from slipway.jobs.output import Column, json_option, print_table, progress, refuse_unasked, say, warn
from slipway.jobs.platforms.mpi.halting import halt
from slipway.jobs.platforms.platform import StillRuns, closed, refuse_running
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import MpiTarget, Target
from slipway.jobs.words.text import dollars, money


@click.command()
@cluster_argument
@click.option("--cancel", is_flag=True, help="Cancel its jobs first; each gets 30 seconds to save.")
@click.option("--yes", is_flag=True, help="Do not ask for the cluster's name.")
def cluster_destroy_command(cluster: str, cancel: bool, yes: bool) -> None:
    """Destroy the stacks of a deployed CLUSTER, after its jobs have ended.

    `cdk destroy` also removes machines on which a job is running. This command refuses while a job runs, or
    cancels it with --cancel and waits until it has saved. It stops the machines, empties a bucket that is
    deleted with its stack, and destroys the cluster's own stacks. Data that was deployed with keep_data=true
    stays: slipway cluster leftovers lists it and what it costs.

    \b
    slipway cluster destroy dl1
    slipway cluster destroy dl1 --cancel
    """
    target = next((target for target in find_targets(None)[0] if target.name == cluster), None)
    if target is None:
        # An earlier run was interrupted: the target's record is deleted with the first of its stacks.
        region = declared_cluster(cluster).region
        refuse_foreign(cluster, region)
        if not destroy_stacks(cluster, region):
            raise SlipwayError(
                f"no cluster named '{cluster}' is deployed", hint="slipway cluster targets lists them"
            )
        say(f"what was left of {cluster} is destroyed")
        return
    say_project()
    refuse_unready()
    refuse_foreign(cluster, target.region)
    if not cancel:
        _refuse_running(target)
    keeps = keeps_its_data(target)
    if not yes:
        _ask(cluster, keeps=keeps)
    with closed(target):  # somebody may have submitted while this asked
        if not cancel:
            _refuse_running(target)
        _take_apart(target, keeps=keeps)
    if keeps:
        say(f"its data stays, and costs: slipway cluster leftovers {cluster}")


def _refuse_running(target: Target) -> None:
    try:
        refuse_running(target)
    except StillRuns as running:
        raise StillRuns(
            f"{running.message}, so nothing was destroyed",
            hint=f"wait, or cancel it and let it save: slipway cluster destroy {target.name} --cancel",
        ) from None


def _take_apart(target: Target, *, keeps: bool) -> None:
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


def _ask(cluster: str, *, keeps: bool) -> None:
    refuse_unasked(f"{cluster} would be destroyed", f"slipway cluster destroy {cluster} --yes")
    lost = "" if keeps else ", and lose everything in its bucket and its files forever"
    typed = click.prompt(f"Destroy {cluster}{lost}? Type its name", default="", show_default=False, err=True)
    if typed != cluster:
        raise click.Abort


# `slipway cluster empty`: deletes everything in a throw-away cluster's bucket, so that it can be destroyed.


@click.command()
@cluster_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. This cannot be undone.")
def cluster_empty_command(cluster: str, yes: bool) -> None:
    """Delete every object in the bucket of a deployed CLUSTER, including old versions.

    Run it before `cdk destroy` of a cluster that was deployed with keep_data=false: that deletes the bucket
    too, and S3 only deletes empty buckets. Machines that stay between jobs are stopped first, because they
    write to the bucket. The command refuses while a job runs, because `cdk destroy` would end that job.

    \b
    slipway cluster empty dl1 --yes
    """
    target = next((target for target in find_targets(None)[0] if target.name == cluster), None)
    if target is None:
        raise SlipwayError(
            f"no cluster named '{cluster}' is deployed", hint="slipway cluster targets lists them"
        )
    refuse_foreign(cluster, target.region)
    refuse_kept(target)
    refuse_running(target)
    if not yes:
        refuse_unasked(
            f"everything in {target.bucket} would be deleted", f"slipway cluster empty {cluster} --yes"
        )
        click.confirm(f"Delete everything in {target.bucket} forever?", abort=True, err=True)
        refuse_running(target)
    if isinstance(target, MpiTarget):
        with progress(f"stopping the machines of {cluster}") as now:
            halt(target, now)
    with progress(f"emptying {target.bucket}") as now:
        deleted = empty(target, lambda count: now(f"{count} versions deleted"))
    say(f"{deleted} versions deleted")


# `slipway cluster leftovers`: lists what destroyed clusters kept and its monthly cost, and deletes it.
def _size(gib: object) -> str:
    assert isinstance(gib, int | float)
    return f"{gib:,.3f}".rstrip("0").rstrip(".")


LEFTOVERS_COLUMNS = (
    Column(name="owner", title="made by"),
    Column(name="kind"),
    Column(name="id"),
    Column(name="gib", title="size", unit="GiB", align="right", absent="-", format=_size),
    Column(name="usd_per_month", title="cost", unit="USD/month", align="right", format=dollars),
    Column(name="holds"),
)


@click.command()
@click.argument("owners", nargs=-1, metavar="[CLUSTER|IMAGE]...", shell_complete=complete_cluster)
@click.option("--region", help="Region to search. Default: your own.")
@click.option("--delete", is_flag=True, help="Delete what is listed, after you typed each name.")
@click.option(
    "--confirm",
    "confirmed",
    multiple=True,
    metavar="NAME",
    help="Cluster or image whose leftovers to delete without being asked. Repeatable.",
)
@json_option
def cluster_leftovers_command(
    owners: tuple[str, ...], region: str | None, delete: bool, confirmed: tuple[str, ...], as_json: bool
) -> None:
    """List what destroyed clusters and bakeries kept, and what it costs a month.

    `cdk destroy` keeps bucket, files, repository, keys and logs of a cluster, unless it was deployed with
    keep_data=false; AMIs outlive their bakery. Machines and training jobs are listed if their stack is gone.
    What a deployed stack owns, or a launch template or an instance uses, is never listed and never deleted.
    With --delete you type the name of each cluster or image whose leftovers are to go. That cannot be undone;
    only a key can be restored, for seven days. Run it again if it was interrupted.

    \b
    slipway cluster leftovers
    slipway cluster leftovers dl1 --delete
    """
    where = region or own_region()
    if where is None:
        raise SlipwayError("no region is set", hint="slipway cluster leftovers --region us-east-1")
    found = find_leftovers(where)
    order = list(LeftoverKind)
    chosen = sorted(
        (leftover for leftover in found.leftovers if not owners or leftover.owner in owners),
        key=lambda each: (each.owner, order.index(each.kind), each.id),
    )
    print_table(
        f"leftovers in {where}", LEFTOVERS_COLUMNS, [asdict(each) for each in chosen], as_json=as_json
    )
    for kind, refusal in found.unanswered:
        warn(f"{kind}: {refusal.words}")
    known = sum(each.usd_per_month or 0 for each in chosen)
    if chosen:
        say(f"{len(chosen)} leftovers, {money(known)} USD a month")
    if not delete:
        return
    if found.unanswered:  # one of the keys may encrypt what could not be listed
        warn("KMS keys stay, because what they encrypt could not all be seen")
        chosen = [leftover for leftover in chosen if leftover.kind is not LeftoverKind.KEY]
    _delete(chosen, where, confirmed)


def _delete(leftovers: Sequence[Leftover], region: str, confirmed: Sequence[str]) -> None:
    removable = [leftover for leftover in leftovers if leftover.kind not in LASTING]
    if lasting := len(leftovers) - len(removable):
        say(f"{lasting} backups stay until AWS Backup deletes them: their vault refuses it to everybody else")
    for owner in dict.fromkeys(leftover.owner for leftover in removable):
        own = [leftover for leftover in removable if leftover.owner == owner]
        if owner not in confirmed and not _typed(owner, own):
            say(f"the leftovers of {owner} stay")
            continue
        with progress(f"deleting the leftovers of {owner}") as now:
            for each in own:
                now(f"{each.kind} {each.id}")
                remove(each, region)
        if any(each.kind is LeftoverKind.KEY for each in own):
            say(f"its keys go in {KEY_DAYS} days; until then: aws kms cancel-key-deletion --key-id …")


def _typed(owner: str, leftovers: Sequence[Leftover]) -> bool:
    """Ask the user to type the owner's name; refuse if there is no terminal to ask at."""
    refuse_unasked(
        f"{len(leftovers)} leftovers of {owner} would be deleted",
        f"slipway cluster leftovers {owner} --delete --confirm {owner}",
    )
    say(
        f"{owner} loses forever: "
        + "; ".join(f"{leftover.kind} {leftover.id}, {leftover.holds}" for leftover in leftovers)
    )
    answer: str = click.prompt(f"Type {owner} to delete them", default="", show_default=False, err=True)
    return answer == owner
