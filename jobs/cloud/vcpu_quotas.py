"""EC2's quotas of vCPUs: one counts all families in its name, of one way to buy, in one region."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask_all, reader

SERVICE = "ec2"
ON_DEMAND, SPOT, CAPACITY_BLOCK = "on-demand", "spot", "capacity-block"
# How the quotas of a market are called, with the letters of the families that each counts.
_QUOTA_NAMES = {SPOT: r"All (.+) Spot Instance Requests"}
_ON_DEMAND_QUOTA = r"Running On-Demand (.+) instances"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    code: str
    name: str
    vcpus: float


def ask_quotas(region: str) -> list[Mapping[str, Any]] | Unanswered:
    """Return EC2's quotas of a region as Service Quotas lists them."""
    answer: list[Mapping[str, Any]] | Unanswered = ask_all(
        reader("service-quotas", region), "ListServiceQuotas", "Quotas", ServiceCode=SERVICE
    )
    return answer


def find_quota(quotas: Iterable[Mapping[str, Any]], instance_type: str, market: str) -> Quota | None:
    """Find the quota by name (Running On-Demand DL instances, …), since no code is promised."""
    family = re.match(r"[a-z]+", instance_type)
    named = _QUOTA_NAMES.get(market, _ON_DEMAND_QUOTA)
    for quota in quotas:
        counted = re.fullmatch(named, quota["QuotaName"])
        if counted and family and family[0] in re.findall(r"[a-z]+", counted[1].lower()):
            return Quota(code=quota["QuotaCode"], name=quota["QuotaName"], vcpus=quota["Value"])
    return None


def ask_quota(instance_type: str, region: str, market: str) -> Quota | Unanswered | None:
    """Ask for the quota that counts a type; None if none does."""
    quotas = ask_quotas(region)
    return quotas if isinstance(quotas, Unanswered) else find_quota(quotas, instance_type, market)
