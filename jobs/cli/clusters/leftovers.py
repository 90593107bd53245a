"""`slipway leftovers`: what destroyed clusters kept, what it costs a month, and its removal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from slipway.jobs.output import Column, can_ask, json_option, print_table, progress, say, warn
from slipway.jobs.words.errors import SlipwayError

if TYPE_CHECKING:
    from slipway.jobs.clusters.leftovers.leftover import Leftover

COLUMNS = (
    Column(name="owner", title="made by"),
    Column(name="kind"),
    Column(name="id"),
    Column(name="gib", title="size", unit="GiB", align="right", absent="-"),
    Column(name="usd_per_month", title="cost", unit="USD/month", align="right"),
    Column(name="holds"),
)


@click.command()
@click.argument("owners", nargs=-1, metavar="[CLUSTER|IMAGE]...")
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
def command(
    owners: tuple[str, ...], region: str | None, delete: bool, confirmed: tuple[str, ...], as_json: bool
) -> None:
    """List what destroyed clusters and bakeries kept, and what it costs a month.

    `cdk destroy` keeps bucket, files, repository, keys and logs of a cluster, unless it was deployed with
    keep_data=false; AMIs outlive their bakery. What a deployed stack owns, or a launch template or an
    instance uses, is never listed and never deleted. With --delete you type the name of each cluster or image
    whose leftovers are to go. That cannot be undone; only a key can be restored, for seven days. Run it again
    if it was interrupted.

    \b
    slipway leftovers
    slipway leftovers dl1 --delete
    """
    from slipway.jobs.cloud.aws import own_region
    from slipway.jobs.clusters.leftovers.found import find_leftovers
    from slipway.jobs.clusters.leftovers.leftover import LeftoverKind

    where = region or own_region()
    if where is None:
        raise SlipwayError("no region is set", hint="slipway leftovers --region us-east-1")
    found = find_leftovers(where)
    order = list(LeftoverKind)
    chosen = sorted(
        (leftover for leftover in found.leftovers if not owners or leftover.owner in owners),
        key=lambda each: (each.owner, order.index(each.kind), each.id),
    )
    print_table(f"leftovers in {where}", COLUMNS, [asdict(each) for each in chosen], as_json=as_json)
    for kind, refusal in found.unanswered:
        warn(f"{kind}: {refusal.action} gave no answer: {refusal.code}, {refusal.message[:200]}")
    known = sum(each.usd_per_month or 0 for each in chosen)
    if chosen:
        say(f"{len(chosen)} leftovers, {known:.2f} USD a month")
    if delete:
        _delete(_without_keys(chosen) if found.unanswered else chosen, where, confirmed)


def _without_keys(leftovers: Sequence[Leftover]) -> list[Leftover]:
    """Keep the keys of what could not be seen: it may be encrypted with one of them."""
    from slipway.jobs.clusters.leftovers.leftover import LeftoverKind

    warn("KMS keys stay, because what they encrypt could not all be seen")
    return [leftover for leftover in leftovers if leftover.kind is not LeftoverKind.KEY]


def _delete(leftovers: Sequence[Leftover], region: str, confirmed: Sequence[str]) -> None:
    from slipway.jobs.clusters.leftovers.leftover import LASTING, LeftoverKind
    from slipway.jobs.clusters.leftovers.removal import KEY_DAYS, remove

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
    """Ask for the name; without a terminal nobody can be asked."""
    if not can_ask():
        raise SlipwayError(
            f"{len(leftovers)} leftovers of {owner} would be deleted, and without a terminal nobody can be "
            "asked",
            hint=f"slipway leftovers {owner} --delete --confirm {owner}",
        )
    say(
        f"{owner} loses forever: "
        + "; ".join(f"{leftover.kind} {leftover.id}, {leftover.holds}" for leftover in leftovers)
    )
    answer: str = click.prompt(f"Type {owner} to delete them", default="", show_default=False, err=True)
    return answer == owner
