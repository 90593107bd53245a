"""Looks around before anything is made: what stands already, what is missing, and what is somebody's data."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.real_account.account import Account
from scripts.real_account.claims import Claim
from scripts.real_account.clusters import NODES
from scripts.real_account.ending import own_leftovers
from scripts.real_account.journal import Journal
from scripts.real_account.stages import BY_NAME, STAGES, existing_stacks
from slipway.infra.clusters import MACHINE_IMAGES
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.vcpu_quotas import ask_quota
from slipway.jobs.output import say
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError


def look_around(account: Account, journal: Journal, chosen: Sequence[Claim]) -> None:
    """Refuse where clusters of these names stand that no run of ours began, and note what is there."""
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
    """A fresh account has five vCPUs, and a bake alone takes 64."""
    needed = _vcpus({claim.stage for claim in chosen if claim.stage})
    quota = ask_quota("c6i.large", account.region, "on-demand")
    if quota is None or isinstance(quota, Unanswered) or quota.vcpus >= needed:
        return
    raise SlipwayError(
        f"{needed} vCPUs are needed, but the quota '{quota.name}' is {quota.vcpus:.0f}",
        hint="aws service-quotas request-service-quota-increase --service-code ec2 "
        f"--quota-code {quota.code} --desired-value {needed} --region {account.region}; or leave out the "
        "bakes with --claims, where the AMIs are there",
    )


def _vcpus(stages: set[str]) -> int:
    """Bakes are over before the nodes of a cluster start; both clusters' nodes run at once."""
    clusters = [BY_NAME[name].cluster for name in stages if not BY_NAME[name].is_bakery]
    own = {cluster.instance_type for cluster in clusters if cluster.image is not None}
    nodes = sum(NODES * instance_type(name).vcpus for name in own)
    baked = {BY_NAME[name].cluster.baked for name in stages if BY_NAME[name].is_bakery}
    bakes = [instance_type(image.instance_type).vcpus for image in MACHINE_IMAGES if image.name in baked]
    return max(nodes, *bakes, 0)
