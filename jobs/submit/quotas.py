"""Refuses a job whose machines EC2 would refuse for ever: the account's quota is smaller than the job."""

from __future__ import annotations

from slipway.jobs.cloud.aws import Unanswered, ask_all, reader
from slipway.jobs.cloud.vcpu_quotas import CAPACITY_BLOCK, ON_DEMAND, SPOT, ask_quota
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import SageMakerTarget, Target

_OVER = ("cancelled", "expired", "failed", "payment-failed", "unsupported")


class SmallQuota(SlipwayError):
    """The job would wait for machines that the account may not run, so nothing was submitted."""


def refuse_small_quota(job: Job, target: Target) -> None:
    """Refuse a job that no quota of today lets start; where nobody may read quotas, AWS decides."""
    if isinstance(target, SageMakerTarget):
        return  # SageMaker judges its own quotas when it is asked
    market = SPOT if getattr(target, "is_spot", False) else ON_DEMAND
    quota = ask_quota(target.instance_type, target.region, market)
    vcpus = instance_type(target.instance_type).vcpus
    needed = job.nodes * vcpus
    if quota is None or isinstance(quota, Unanswered) or needed <= quota.vcpus or _may_have_block(target):
        return
    raise SmallQuota(
        f"{job.name} needs {job.nodes} × {vcpus} = {needed} vCPUs of {target.instance_type}, but the quota "
        f"'{quota.name}' of this account is {quota.vcpus:.0f} in {target.region}, so its nodes cannot start",
        hint=f"slipway quota {target.name} --request; or ask for fewer --nodes",
    )


def _may_have_block(target: Target) -> bool:
    """Return True where a capacity block may serve the job, which no quota counts."""
    of_type = [{"Name": "instance-type", "Values": [target.instance_type]}]
    found = ask_all(
        reader("ec2", target.region),
        "DescribeCapacityReservations",
        "CapacityReservations",
        Filters=of_type,
    )
    if isinstance(found, Unanswered):
        return True
    return any(each.get("ReservationType") == CAPACITY_BLOCK and each["State"] not in _OVER for each in found)
