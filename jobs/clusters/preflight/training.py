"""Checks of what SageMaker lets an account train with, and of the log that all of its jobs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.declared import DeclaredCluster
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
from slipway.jobs.words.targets import SageMakerTarget

_SECONDS_PER_HOUR = 3600
_NO_TRAINING = "no training job of SageMaker"


def instances(cluster: DeclaredCluster, facts: Facts) -> Verdict:
    """SageMaker lets a fresh account start none of the large types, whatever EC2's quotas say."""

    def judge(limits: TrainingLimits) -> Verdict:
        name = instance_quota(cluster)
        said = f"max_nodes is {cluster.max_nodes}"
        return _held(cluster, limits.instances, name, cluster.max_nodes, said, limits.instances_of_others)

    return _judged(facts, judge)


def warm_pool(cluster: DeclaredCluster, facts: Facts) -> Verdict:
    def judge(limits: TrainingLimits) -> Verdict:
        if not cluster.warm_pool_minutes:
            return ok("none is kept: instances go with their job")
        name = WARM_POOL.format(cluster.instance_type)
        said, others = "every instance stays warm", limits.warm_of_others
        verdict = _held(cluster, limits.warm_pool, name, cluster.max_nodes, said, others)
        billed = f"instances are billed for {cluster.warm_pool_minutes} minutes after each job"
        return warning(f"{verdict.found}; {billed}") if not verdict.fix else verdict

    return _judged(facts, judge)


def longest_job(cluster: DeclaredCluster, facts: Facts) -> Verdict:
    def judge(limits: TrainingLimits) -> Verdict:
        hours = cluster.job_timeout_hours
        seconds = hours * _SECONDS_PER_HOUR
        name = "longest run time"
        return _held(cluster, limits.longest_job, name, seconds, f"job_timeout_hours is {hours}")

    return _judged(facts, judge)


def log(cluster: DeclaredCluster, facts: Facts) -> Verdict:
    """One group for all jobs of an account: our stacks cannot own it, and SageMaker keeps it for ever."""

    def judge(limits: TrainingLimits) -> Verdict:
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

    return _judged(facts, judge)


def _judged(facts: Facts, judge: Callable[[TrainingLimits], Verdict]) -> Verdict:
    if facts.training is None:
        return ok(_NO_TRAINING)
    return unanswered(facts.training) if isinstance(facts.training, Unanswered) else judge(facts.training)


def _held(
    cluster: DeclaredCluster,
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
