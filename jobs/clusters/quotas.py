"""The vCPU quotas that a cluster needs: those of its nodes, and of the machine that bakes its AMI."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from slipway.jobs import aws
from slipway.jobs.aws import Unanswered, ask_all, reader
from slipway.jobs.catalogue.instances import instance_type
from slipway.jobs.clusters.declared import DeclaredCluster
from slipway.jobs.clusters.preflight.facts import ask_quota
from slipway.jobs.core.errors import SlipwayError

_SERVICE = "ec2"
_OPEN = ("PENDING", "CASE_OPENED")
_POLL_SECONDS = 30.0


class NoQuota(SlipwayError):
    """Service Quotas did not say what the account may run, or takes no request for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededQuota:
    """Describes one quota: what is needed at most at one time, and what is allowed today."""

    purpose: str
    code: str
    name: str
    region: str
    needed_vcpus: int
    allowed_vcpus: float
    requested_vcpus: float | None  # by a request that is still open

    @property
    def suffices(self) -> bool:
        return self.needed_vcpus <= self.allowed_vcpus


def find_quotas(cluster: DeclaredCluster) -> list[NeededQuota]:
    """Ask for the quotas that the cluster needs; one that serves two purposes is listed for the larger."""
    found: dict[str, NeededQuota] = {}
    for purpose, type_, count, market in _purposes(cluster):
        quota = ask_quota(type_, cluster.region, market)
        if isinstance(quota, Unanswered):
            raise NoQuota(
                f"{quota.action} gave no answer: {quota.code}, {quota.message[:200]}",
                hint=f"allow {quota.action} to your role" if quota.is_denied else "",
            )
        if quota is None:
            raise NoQuota(f"no quota of EC2 counts {type_}", hint="look in the Service Quotas console")
        needed = count * instance_type(type_).vcpus
        if quota.code not in found or found[quota.code].needed_vcpus < needed:
            found[quota.code] = NeededQuota(
                purpose=purpose,
                code=quota.code,
                name=quota.name,
                region=cluster.region,
                needed_vcpus=needed,
                allowed_vcpus=quota.vcpus,
                requested_vcpus=_open_request(quota.code, cluster.region),
            )
    return list(found.values())


def request_increase(quota: NeededQuota) -> NeededQuota:
    """Ask AWS for what is needed, unless it is allowed already or a request is open."""
    if quota.suffices or quota.requested_vcpus is not None:
        return quota
    answer = aws.client("service-quotas", quota.region).request_service_quota_increase(
        ServiceCode=_SERVICE, QuotaCode=quota.code, DesiredValue=float(quota.needed_vcpus)
    )
    return replace(quota, requested_vcpus=float(answer["RequestedQuota"]["DesiredValue"]))


def wait_for_quotas(
    cluster: DeclaredCluster, pause: Callable[[float], None] = time.sleep
) -> Sequence[NeededQuota]:
    """Return when all suffice; AWS takes minutes to days, and a refusal ends the wait."""
    while True:
        found = find_quotas(cluster)
        lacking = [quota for quota in found if not quota.suffices]
        if not lacking:
            return found
        if refused := [quota for quota in lacking if quota.requested_vcpus is None]:
            raise NoQuota(
                f"the quota '{refused[0].name}' is {refused[0].allowed_vcpus:.0f} vCPUs of "
                f"{refused[0].needed_vcpus}, and no request is open",
                hint="AWS closed it: look at the support case in the console",
            )
        pause(1.0 if aws.is_in_yard() else _POLL_SECONDS)


def _purposes(cluster: DeclaredCluster) -> Iterator[tuple[str, str, int, str]]:
    if cluster.market != "capacity-block":  # these do not count against a quota
        yield f"nodes of {cluster.name}", cluster.instance_type, cluster.max_nodes, cluster.market
    if cluster.login_instance_type:
        yield f"the login node of {cluster.name}", cluster.login_instance_type, 1, "on-demand"
    if cluster.build_type:
        yield "baking its AMI", cluster.build_type, 1, "on-demand"


def _open_request(code: str, region: str) -> float | None:
    answer = ask_all(
        reader("service-quotas", region),
        "ListRequestedServiceQuotaChangeHistoryByQuota",
        "RequestedQuotas",
        ServiceCode=_SERVICE,
        QuotaCode=code,
    )
    if isinstance(answer, Unanswered):
        return None
    return next((each["DesiredValue"] for each in answer if each["Status"] in _OPEN), None)
