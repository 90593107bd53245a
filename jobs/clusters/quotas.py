"""Finds the quotas that a cluster needs: EC2's for its nodes and its AMI's bake, or SageMaker's; requests
them.

A quota counts all clusters of an account and region together, so the need is their sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from slipway.infra.declare.types import Cluster, SageMakerCluster
from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered, ask_all, reader
from slipway.jobs.cloud.capacity import SERVICE as EC2
from slipway.jobs.clusters.neighbours import Neighbourhood, QuotaShare, find_neighbourhood, share_words
from slipway.jobs.clusters.preflight.facts import ask_account
from slipway.jobs.clusters.preflight.training_limits import (
    SERVICE,
    TrainingQuota,
    ask_training,
    instance_quota,
)
from slipway.jobs.clusters.preflight.vcpu_limits import ask_vcpus
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.run import SECONDS_PER_HOUR

_POLL_SECONDS = 30.0


class NoQuota(SlipwayError):
    """Service Quotas did not say what the account may run, or accepts no request for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededQuota:
    """Describe one quota: the largest need at one time, and what is allowed today."""

    purpose: str
    service: str
    code: str
    name: str
    region: str
    needed: int
    counted: str  # which clusters need how much of it
    allowed: float
    requested: float | None  # by a request that is still open
    unit: str

    @property
    def suffices(self) -> bool:
        return self.needed <= self.allowed


def find_quotas(cluster: Cluster, hood: Neighbourhood | None = None) -> list[NeededQuota]:
    """Ask for the quotas that a cluster and its neighbours need; with `hood` None, find those first."""
    hood = hood or neighbourhood_of(cluster)
    if isinstance(cluster, SageMakerCluster):
        return list(_training_quotas(cluster, hood))
    return list(_vcpu_quotas(cluster, hood))


def neighbourhood_of(cluster: Cluster) -> Neighbourhood:
    account = ask_account(cluster.region)
    return find_neighbourhood(cluster, None if isinstance(account, Unanswered) else account)


def _vcpu_quotas(cluster: Cluster, hood: Neighbourhood) -> Iterator[NeededQuota]:
    needs = aws.answered(ask_vcpus(cluster, hood, bakes=True))
    assert needs is not None, "the cluster has machines of EC2"
    for need in needs:
        if need.quota is None:
            type_ = need.own[0].instance_type
            raise NoQuota(f"no quota of EC2 counts {type_}", hint="look in the Service Quotas console")
        yield NeededQuota(
            purpose=" and ".join(machines.purpose for machines in need.own),
            service=EC2,
            code=need.quota.code,
            name=need.quota.name,
            region=cluster.region,
            needed=need.needed,
            counted=_counted(cluster, need.own_vcpus, need.others),
            allowed=need.quota.vcpus,
            requested=_open_request(EC2, need.quota.code, cluster.region),
            unit="vCPUs",
        )


def _training_quotas(cluster: SageMakerCluster, hood: Neighbourhood) -> Iterator[NeededQuota]:
    limits = aws.answered(ask_training(cluster, hood))
    assert limits is not None, "the cluster trains in SageMaker"
    nodes, seconds = cluster.max_nodes, cluster.job_timeout_hours * SECONDS_PER_HOUR
    jobs, kept = f"a job of {cluster.name}", "instances kept warm"
    wanted: list[tuple[str, TrainingQuota | None, int, str, tuple[QuotaShare, ...]]] = [
        (jobs, limits.instances, nodes, "instances", limits.instances_of_others),
        ("the longest job", limits.longest_job, seconds, "seconds", ()),
    ]
    if cluster.warm_pool_minutes:
        wanted.append((kept, limits.warm_pool, nodes, "instances", limits.warm_of_others))
    for purpose, quota, own, unit, others in wanted:
        if quota is None:
            name = instance_quota(cluster)
            raise NoQuota(
                f"Service Quotas lists none for {purpose}, such as '{name}'", hint="look in its console"
            )
        yield NeededQuota(
            purpose=purpose,
            service=SERVICE,
            code=quota.code,
            name=quota.name,
            region=cluster.region,
            needed=own + sum(share.amount for share in others),
            counted=_counted(cluster, own, others),
            allowed=quota.value,
            requested=_open_request(SERVICE, quota.code, cluster.region),
            unit=unit,
        )


def _counted(cluster: Cluster, own: int, others: Sequence[QuotaShare]) -> str:
    return share_words([QuotaShare(who=cluster.name, amount=own, stands=True), *others])


def request_increase(quota: NeededQuota) -> NeededQuota:
    """Request the needed value, unless it is allowed already or a request is open."""
    if quota.suffices or quota.requested is not None:
        return quota
    from botocore.exceptions import ClientError

    asked = aws.client("service-quotas", quota.region)
    which = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    try:
        answer = asked.request_service_quota_increase(**which, DesiredValue=float(quota.needed))
    except ClientError:
        allowed = float(asked.get_service_quota(**which)["Quota"]["Value"])
        if allowed < quota.needed:
            raise
        return replace(quota, allowed=allowed)  # an earlier request was granted since we looked
    return replace(quota, requested=float(answer["RequestedQuota"]["DesiredValue"]))


def wait_for_quotas(
    cluster: Cluster,
    hood: Neighbourhood | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Sequence[NeededQuota]:
    """Return when all quotas suffice; AWS takes minutes to days, and a refusal ends the wait.

    A refusal counts only when seen twice: a request may be granted between the two questions of one look.
    """
    closed: list[str] = []
    hood = hood or neighbourhood_of(cluster)
    while True:
        found = aws.outlast(partial(find_quotas, cluster, hood), pause)
        lacking = [quota for quota in found if not quota.suffices]
        if not lacking:
            return found
        refused = [quota for quota in lacking if quota.requested is None]
        if any(quota.code in closed for quota in refused):
            raise NoQuota(
                f"the quota '{refused[0].name}' is {refused[0].allowed:.0f} {refused[0].unit} of "
                f"{refused[0].needed}, and no request is open",
                hint="AWS closed it: look at the support case in the console",
            )
        closed = [quota.code for quota in refused]
        pause(1.0 if aws.is_in_yard() else _POLL_SECONDS)


def _open_request(service: str, code: str, region: str) -> float | None:
    answer = ask_all(
        reader("service-quotas", region),
        "ListRequestedServiceQuotaChangeHistoryByQuota",
        "RequestedQuotas",
        ServiceCode=service,
        QuotaCode=code,
    )
    if isinstance(answer, Unanswered):
        return None
    return next(
        (each["DesiredValue"] for each in answer if each["Status"] in ("PENDING", "CASE_OPENED")), None
    )
