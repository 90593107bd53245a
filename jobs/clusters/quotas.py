"""The quotas that a cluster needs: EC2's of its nodes and of its AMI's bake, or SageMaker's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from slipway.jobs import aws
from slipway.jobs.aws import Unanswered, ask_all, reader
from slipway.jobs.catalogue.instances import instance_type
from slipway.jobs.clusters.declared import DeclaredCluster
from slipway.jobs.clusters.preflight.facts import ask_quota
from slipway.jobs.clusters.preflight.hyperpod_limits import HYPERPOD_KIND, USAGE, ask_hyperpod
from slipway.jobs.clusters.preflight.training_limits import (
    SERVICE,
    TRAINING_KIND,
    TrainingQuota,
    ask_training,
    instance_quota,
)
from slipway.jobs.core.errors import SlipwayError

_EC2 = "ec2"
_SECONDS_PER_HOUR = 3600
_OPEN = ("PENDING", "CASE_OPENED")
_POLL_SECONDS = 30.0


class NoQuota(SlipwayError):
    """Service Quotas did not say what the account may run, or takes no request for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededQuota:
    """Describes one quota: what is needed at most at one time, and what is allowed today."""

    purpose: str
    service: str
    code: str
    name: str
    region: str
    needed: int
    allowed: float
    requested: float | None  # by a request that is still open
    unit: str

    @property
    def suffices(self) -> bool:
        return self.needed <= self.allowed


def find_quotas(cluster: DeclaredCluster) -> list[NeededQuota]:
    """Ask for the quotas that the cluster needs; one that serves two purposes is listed for the larger."""
    if cluster.kind == TRAINING_KIND:
        return list(_training_quotas(cluster))
    if cluster.kind == HYPERPOD_KIND:
        return list(_hyperpod_quotas(cluster))
    found: dict[str, NeededQuota] = {}
    for quota in _vcpu_quotas(cluster):
        if quota.code not in found or found[quota.code].needed < quota.needed:
            found[quota.code] = quota
    return list(found.values())


def _vcpu_quotas(cluster: DeclaredCluster) -> Iterator[NeededQuota]:
    for purpose, type_, count, market in _purposes(cluster):
        quota = ask_quota(type_, cluster.region, market)
        if isinstance(quota, Unanswered):
            raise _no_answer(quota)
        if quota is None:
            raise NoQuota(f"no quota of EC2 counts {type_}", hint="look in the Service Quotas console")
        yield NeededQuota(
            purpose=purpose,
            service=_EC2,
            code=quota.code,
            name=quota.name,
            region=cluster.region,
            needed=count * instance_type(type_).vcpus,
            allowed=quota.vcpus,
            requested=_open_request(_EC2, quota.code, cluster.region),
            unit="vCPUs",
        )


def _training_quotas(cluster: DeclaredCluster) -> Iterator[NeededQuota]:
    limits = ask_training(cluster)
    assert limits is not None, "the cluster trains in SageMaker"
    if isinstance(limits, Unanswered):
        raise _no_answer(limits)
    wanted: list[tuple[str, TrainingQuota | None, int, str]] = [
        (f"a job of {cluster.name}", limits.instances, cluster.max_nodes, "instances"),
        ("the longest job", limits.longest_job, cluster.job_timeout_hours * _SECONDS_PER_HOUR, "seconds"),
    ]
    if cluster.warm_pool_minutes:
        wanted.append(("instances kept warm", limits.warm_pool, cluster.max_nodes, "instances"))
    for purpose, quota, needed, unit in wanted:
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
            needed=needed,
            allowed=quota.value,
            requested=_open_request(SERVICE, quota.code, cluster.region),
            unit=unit,
        )


def _hyperpod_quotas(cluster: DeclaredCluster) -> Iterator[NeededQuota]:
    """Yield those that Service Quotas lists; without one of its types a cluster cannot be judged."""
    needs = ask_hyperpod(cluster)
    assert needs is not None, "the cluster is on HyperPod"
    if isinstance(needs, Unanswered):
        raise _no_answer(needs)
    for need in needs:
        if need.quota is None and need.name.endswith(USAGE.format("")):
            raise NoQuota(f"Service Quotas lists no '{need.name}'", hint="look in its console")
        if need.quota is not None:
            yield NeededQuota(
                purpose=f"nodes of {cluster.name}, which stand",
                service=SERVICE,
                code=need.quota.code,
                name=need.quota.name,
                region=cluster.region,
                needed=need.instances,
                allowed=need.quota.value,
                requested=_open_request(SERVICE, need.quota.code, cluster.region),
                unit="instances",
            )


def request_increase(quota: NeededQuota) -> NeededQuota:
    """Ask AWS for what is needed, unless it is allowed already or a request is open."""
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
    cluster: DeclaredCluster, pause: Callable[[float], None] = time.sleep
) -> Sequence[NeededQuota]:
    """Return when all suffice; AWS takes minutes to days, and a refusal ends the wait.

    It counts as one only the second time: a request may be granted between the two questions of a look.
    """
    closed: list[str] = []
    while True:
        found = find_quotas(cluster)
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


def _purposes(cluster: DeclaredCluster) -> Iterator[tuple[str, str, int, str]]:
    if cluster.market != "capacity-block":  # these do not count against a quota
        yield f"nodes of {cluster.name}", cluster.instance_type, cluster.max_nodes, cluster.market
    if cluster.login_instance_type:
        yield f"the login node of {cluster.name}", cluster.login_instance_type, 1, "on-demand"
    if cluster.build_type:
        yield "baking its AMI", cluster.build_type, 1, "on-demand"


def _no_answer(refusal: Unanswered) -> NoQuota:
    return NoQuota(
        f"{refusal.action} gave no answer: {refusal.code}, {refusal.message[:200]}",
        hint=f"allow {refusal.action} to your role" if refusal.is_denied else "",
    )


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
    return next((each["DesiredValue"] for each in answer if each["Status"] in _OPEN), None)
