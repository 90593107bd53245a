"""Checks of what SageMaker lets an account train with, and of the log that all of its jobs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from slipway.infra.declare.types import Cluster, SageMakerCluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.clusters.neighbours import QuotaShare, share_words
from slipway.jobs.clusters.preflight.facts import Facts
from slipway.jobs.clusters.preflight.training_limits import (
    SERVICE,
    WARM_POOL,
    TrainingLimits,
    TrainingQuota,
    instance_quota,
)
from slipway.jobs.clusters.preflight.verdicts import Verdict, failed, ok, unanswered, unknown, warning
from slipway.jobs.words.run import SECONDS_PER_HOUR
from slipway.jobs.words.targets import SageMakerTarget

_NO_TRAINING = "no training job of SageMaker"


Judge = Callable[[SageMakerCluster, TrainingLimits], Verdict]


def _of_training(judge: Judge) -> Callable[[Cluster, Facts], Verdict]:
    """Make a check of a judgement: what was not answered is unknown, and other kinds are well."""

    @wraps(judge)
    def check(cluster: Cluster, facts: Facts) -> Verdict:
        limits = facts.training
        if isinstance(limits, Unanswered):
            return unanswered(limits)
        if limits is None or not isinstance(cluster, SageMakerCluster):
            return ok(_NO_TRAINING)
        return judge(cluster, limits)

    return check


@_of_training
def instances(cluster: SageMakerCluster, limits: TrainingLimits) -> Verdict:
    """SageMaker lets a fresh account start none of the large types, whatever EC2's quotas say."""
    name, said = instance_quota(cluster), f"max_nodes is {cluster.max_nodes}"
    return _held(cluster, limits.instances, name, cluster.max_nodes, said, limits.instances_of_others)


@_of_training
def warm_pool(cluster: SageMakerCluster, limits: TrainingLimits) -> Verdict:
    if not cluster.warm_pool_minutes:
        return ok("none is kept: instances go with their job")
    name = WARM_POOL.format(cluster.instance_type)
    said, others = "every instance stays warm", limits.warm_of_others
    verdict = _held(cluster, limits.warm_pool, name, cluster.max_nodes, said, others)
    billed = f"instances are billed for {cluster.warm_pool_minutes} minutes after each job"
    return warning(f"{verdict.found}; {billed}") if not verdict.fix else verdict


@_of_training
def longest_job(cluster: SageMakerCluster, limits: TrainingLimits) -> Verdict:
    hours = cluster.job_timeout_hours
    said = f"job_timeout_hours is {hours}"
    return _held(cluster, limits.longest_job, "longest run time", hours * SECONDS_PER_HOUR, said)


@_of_training
def log(cluster: SageMakerCluster, limits: TrainingLimits) -> Verdict:
    """One group for all jobs of an account: our stacks cannot own it, and SageMaker keeps it for ever."""
    found, group = limits.log, SageMakerTarget.log_group
    if isinstance(found, Unanswered):
        return unanswered(found)
    keep = f"aws logs put-retention-policy --log-group-name {group} --retention-in-days 365"
    if found is None:
        return warning(
            f"SageMaker makes {group} with the first job, and nothing in it ends",
            f"after the first job: {keep} --region {cluster.region}",
        )
    if found.keeps_days is None:
        return warning(f"{group} keeps what jobs print for ever", f"{keep} --region {cluster.region}")
    key = "a key of this account" if found.is_encrypted else "AWS's own key"
    return ok(f"{group} keeps {found.keeps_days} days, encrypted with {key}")


def _held(
    cluster: Cluster,
    quota: TrainingQuota | None,
    name: str,
    own: int,
    because: str,
    others: Sequence[QuotaShare] = (),
) -> Verdict:
    needed = own + sum(share.amount for share in others)
    if others:
        because = f"{because}, and {share_words(others)}, {needed} in all"
    if quota is None:
        return unknown(
            f"{because}, and Service Quotas lists no '{name}'", "look in the Service Quotas console"
        )
    said = f"{because}, the quota '{quota.name}' is {quota.value:.0f}"
    if needed <= quota.value:
        return ok(said)
    fix = (
        f"aws service-quotas request-service-quota-increase --service-code {SERVICE} "
        f"--quota-code {quota.code} --desired-value {needed} --region {cluster.region}"
    )
    if own + sum(share.amount for share in others if share.stands) <= quota.value:
        return warning(f"{said}: enough as long as what is only declared is not deployed", fix)
    return failed(said, fix)
