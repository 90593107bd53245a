"""Look at what was in the account before a run, remove what the run made, and check that it is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.claims import Claim, Proof, judged, machines
from scripts.real_account.clusters import (
    BY_NAME,
    CLUSTERS,
    GPU,
    MPI,
    NODES,
    SAGEMAKER,
    STAGES,
    SmallCluster,
    Stage,
    existing_stacks,
)
from scripts.real_account.trying import Journal
from slipway.infra.clusters import MACHINE_IMAGES
from slipway.jobs.cloud.aws import Unanswered, client
from slipway.jobs.cloud.capacity import ask_quota
from slipway.jobs.clusters.leftovers.finders import FINDERS, Leftover, LeftoverKind
from slipway.jobs.clusters.leftovers.removal import find_leftovers, remove
from slipway.jobs.output import say
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.amis import bakery_stack_name

_ATTEMPTS = 3


def look_around(account: Account, journal: Journal, chosen: Sequence[Claim]) -> None:
    """Refuse if clusters of these names exist that no run of ours began; note what is there."""
    if journal.begun:
        say(f"an earlier run left {', '.join(journal.begun)}: this one goes on from there")
        return
    existing = existing_stacks(account)
    ours = {stack for stage in STAGES if not stage.is_bakery for stack in stage.stacks(account.region)}
    if taken := sorted(ours & existing.keys()):
        raise SlipwayError(
            f"{', '.join(taken)} stand in this account, and no run of this command began them",
            hint="destroy them first, or use another region",
        )
    if "CDKToolkit" not in existing:
        raise SlipwayError(
            f"{account.region} is not bootstrapped for the CDK",
            hint=f"cdk bootstrap aws://{account.number}/{account.region}",
        )
    _refuse_small_quota(account, chosen)
    owners = {BY_NAME[claim.stage].owner for claim in chosen if claim.stage}
    journal.kept = [leftover.id for leftover in own_leftovers(account.region, owners, set())]
    journal.save()


def _refuse_small_quota(account: Account, chosen: Sequence[Claim]) -> None:
    """Refuse a quota that is too small: a new account has five vCPUs, and a bake alone takes 64."""
    for sort, needed in _vcpus({claim.stage for claim in chosen if claim.stage}).items():
        quota = ask_quota(sort, account.region, "on-demand")
        if quota is not None and not isinstance(quota, Unanswered) and quota.vcpus < needed:
            raise SlipwayError(
                f"{needed} vCPUs are needed, but the quota '{quota.name}' is {quota.vcpus:.0f}",
                hint="aws service-quotas request-service-quota-increase --service-code ec2 "
                f"--quota-code {quota.code} --desired-value {needed} --region {account.region}; or leave out "
                "with --claims what needs them: bakes, where the AMIs are there, or GPUs",
            )


def _vcpus(stages: set[str]) -> dict[str, int]:
    """Count the vCPUs of each quota, by one of its types; bakes end before nodes start, nodes run at once."""
    clusters = [BY_NAME[name].cluster for name in stages if not BY_NAME[name].is_bakery]
    own = {cluster.instance_type for cluster in clusters if cluster is not SAGEMAKER}
    needed = {name: NODES * instance_type(name).vcpus for name in own}
    gpus = needed.pop(GPU.instance_type, 0)
    nodes = sum(needed.values())
    baked = {BY_NAME[name].cluster.baked for name in stages if BY_NAME[name].is_bakery}
    bakes = [instance_type(image.instance_type).vcpus for image in MACHINE_IMAGES if image.name in baked]
    return {MPI.instance_type: max(nodes, *bakes, 0), GPU.instance_type: gpus}


def take_away(account: Account, journal: Journal, say: Callable[[str], None]) -> list[str]:
    """Destroy every stage that was begun, the last one first; return what could not be removed, in words."""
    account.ends_at = float("inf")  # what was made is removed, however late it is
    left: list[str] = []
    for _ in range(_ATTEMPTS):
        left = [
            words for name in reversed(journal.begun.copy()) for words in _end(account, journal, name, say)
        ]
        if not left:
            break
    return left


def nothing_left(account: Account, owners: set[str], kept: set[str]) -> Proof:
    """Prove that no stack, no machine and no leftover of ours exists."""
    ours = {stack for stage in STAGES for stack in stage.stacks(account.region)}
    stacks = [name for name in existing_stacks(account) if name in ours and name not in kept]
    running = [machine for cluster in CLUSTERS for machine in machines(account, cluster)]
    leftovers = [f"{leftover.kind} {leftover.id}" for leftover in own_leftovers(account.region, owners, kept)]
    found = [*stacks, *running, *leftovers]
    return judged(not found, f"left are {', '.join(found)}" if found else "no stack, no machine, no leftover")


def _end(account: Account, journal: Journal, name: str, say: Callable[[str], None]) -> list[str]:
    """Remove one stage; it stays in the journal until all of it is gone."""
    stage, kept = BY_NAME[name], set(journal.kept)
    say(f"taking away {name}")
    try:
        if not stage.is_bakery:
            _empty(account, stage.cluster, kept)
        stacks = _own_stacks(account, stage, kept)
        if stacks:
            stage.destroy(account, stacks)
        if not stage.is_bakery:
            _terminate(account, stage.cluster)
        for leftover in own_leftovers(account.region, {stage.owner}, kept):
            remove(leftover, account.region)
    except (CommandFailed, SlipwayError) as error:
        return [f"{name}: {error}"]
    journal.end(name)
    return []


def _empty(account: Account, cluster: SmallCluster, kept: set[str]) -> None:
    """Empty the cluster's buckets, even if it was never complete: S3 deletes only empty buckets."""
    try:
        account.run("slipway", "cluster", "empty", cluster.name, "--yes", folder=cluster.folder)
    except CommandFailed:
        for job in _unfinished(account, cluster):
            account.run("slipway", "cancel", job)
        _terminate(account, cluster)
        for bucket in FINDERS[LeftoverKind.BUCKET](account.region):
            if bucket.owner == cluster.name and bucket.id not in kept:
                remove(bucket, account.region)


def _unfinished(account: Account, cluster: SmallCluster) -> list[str]:
    try:
        return [str(run["name"]) for run in account.data("slipway", "status", "--on", cluster.name)]
    except CommandFailed:
        return []  # no such target


def _terminate(account: Account, cluster: SmallCluster) -> None:
    if ids := machines(account, cluster):
        client("ec2", account.region).terminate_instances(InstanceIds=ids)


def _own_stacks(account: Account, stage: Stage, kept: set[str]) -> tuple[str, ...]:
    """Return the stacks that exist and are ours; a bakery's network stays while another bakery uses it."""
    existing = existing_stacks(account)
    own = [name for name in stage.stacks(account.region) if name in existing and name not in kept]
    if stage.is_bakery:
        bakery, network = stage.stacks(account.region)
        others = [
            name
            for name in existing
            if name.startswith(bakery_stack_name("")) and name not in (bakery, network)
        ]
        own = [name for name in own if name != network or not others]
    return tuple(own)


def own_leftovers(region: str, owners: set[str], kept: set[str]) -> list[Leftover]:
    """Return what this run left; what was there before is somebody's data."""
    found = find_leftovers(region).leftovers
    return [each for each in found if each.owner in owners and each.id not in kept]
