"""The account's quotas: their values, their use, and requests for more.

They start with a new account's values, separately in every Region. To add a quota of EC2: a line of QUOTAS;
all count vCPUs. Codes and names are from the Service Quotas console, values from EC2's user guide, "Amazon
EC2 instance quotas". Quotas of SageMaker's training jobs are lines of TRAINING_QUOTAS.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend

# SageMaker's quotas for training jobs whose codes the yard knows.
# Codes and names are from a public audit of Service Quotas. Users report 0 for the large types in a new
# account; the value of ml.m5.large is from one user's account; times are from SageMaker's documentation.
# Any other quota applies only after `slipway yard grant-quota` has set it by its name.
LONGEST_JOB = "Longest run time for a training job"
_OF_INSTANCES = re.compile(r"ml\.[\w.-]+ for (spot )?training job usage")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobQuota:
    name: str
    value: int  # in a new account: instances, or seconds


TRAINING_QUOTAS: Mapping[str, TrainingJobQuota] = {
    "L-09B4A649": TrainingJobQuota(name="ml.p4d.24xlarge for training job usage", value=0),
    "L-09D56C4F": TrainingJobQuota(name="ml.p4d.24xlarge for spot training job usage", value=0),
    "L-6BC98A55": TrainingJobQuota(name="ml.g5.48xlarge for training job usage", value=0),
    "L-0DA2E7B0": TrainingJobQuota(name="ml.g6e.48xlarge for training job usage", value=0),
    "L-8497E1A4": TrainingJobQuota(name="ml.g6e.48xlarge for spot training job usage", value=0),
    "L-611FA074": TrainingJobQuota(name="ml.m5.large for training job usage", value=15),
    "L-29688C85": TrainingJobQuota(name="ml.m5.large for spot training job usage", value=10),
    "L-2DD73636": TrainingJobQuota(name="ml.m5.large for training warm pool usage", value=0),
    "L-33A961FD": TrainingJobQuota(name=LONGEST_JOB, value=432_000),
}


def code_or_name(text: str) -> str:
    """Return the code of the quota with this name, if it is known here; else the text."""
    return next((code for code, quota in TRAINING_QUOTAS.items() if quota.name == text), text)


APPROVAL_VARIABLE = "SLIPWAY_YARD_QUOTA_SECONDS"
APPROVAL_S = 1.0  # until a request is approved; AWS takes minutes to days, and may refuse
SPOT, ON_DEMAND = "spot", "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceQuota:
    name: str
    families: tuple[str, ...]  # beginnings of the names of its instance types
    vcpus: int  # in a new account
    market: str = ON_DEMAND


_STANDARD = ("a", "c", "d", "h", "i", "m", "r", "t", "z")
QUOTAS: Mapping[str, ServiceQuota] = {
    "L-1216C47A": ServiceQuota(
        name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", families=_STANDARD, vcpus=5
    ),
    "L-2C3B7624": ServiceQuota(name="Running On-Demand Trn instances", families=("trn",), vcpus=0),
    "L-34B43A08": ServiceQuota(
        name="All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
        families=_STANDARD,
        vcpus=5,
        market=SPOT,
    ),
    "L-417A185B": ServiceQuota(name="Running On-Demand P instances", families=("p",), vcpus=0),
    "L-6E869C2A": ServiceQuota(name="Running On-Demand DL instances", families=("dl",), vcpus=0),
    "L-7212CCBC": ServiceQuota(
        name="All P4, P3 and P2 Spot Instance Requests", families=("p",), vcpus=0, market=SPOT
    ),
    "L-DB2E81BA": ServiceQuota(name="Running On-Demand G and VT instances", families=("g", "vt"), vcpus=0),
}


# Service Quotas' name of the service -> codes.
_CODES: Mapping[str, tuple[str, ...]] = {"ec2": tuple(QUOTAS), "sagemaker": tuple(TRAINING_QUOTAS)}


@dataclass(slots=True, kw_only=True)
class QuotaRequest:
    """One RequestServiceQuotaIncrease, and when it is approved."""

    code: str
    region: str
    vcpus: float
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    approved_at: float = field(default_factory=lambda: time.monotonic() + approval_s())

    @property
    def status(self) -> str:
        return "APPROVED" if time.monotonic() >= self.approved_at else "PENDING"


_lock = threading.Lock()
_granted: dict[tuple[str, str], float] = {}  # (code, region) -> vCPUs
_everywhere: dict[str, float] = {}  # code -> vCPUs, in every region
_requests: list[QuotaRequest] = []


def reset() -> None:
    """Restore a new account's quotas."""
    with _lock:
        _granted.clear()
        _everywhere.clear()
        _requests.clear()


def grant(code: str, vcpus: float, region: str | None = None) -> None:
    """Set a quota at once, in one Region or in all; a training job's may be given by name."""
    code = code_or_name(code)
    # A quota of instances may be set although its code is not known here.
    if code not in known_codes() and not _OF_INSTANCES.fullmatch(code):
        raise ApiError(
            "NoSuchResourceException", f"the yard has no quota '{code}'; it has {', '.join(known_codes())}"
        )
    with _lock:
        if region is None:
            _everywhere[code] = vcpus
        else:
            _granted[code, region] = vcpus


def known_codes(service: str | None = None) -> tuple[str, ...]:
    """Return the codes of one service, by Service Quotas' name, or of all."""
    return tuple(code for name, codes in _CODES.items() if service in (None, name) for code in codes)


def service_of(code: str) -> str:
    return next(service for service, codes in _CODES.items() if code in codes)


def name_of(code: str) -> str:
    found = QUOTAS.get(code) or TRAINING_QUOTAS.get(code_or_name(code))
    return found.name if found else code


def of_a_fresh_account(code: str) -> float:
    return float(QUOTAS[code].vcpus if code in QUOTAS else TRAINING_QUOTAS[code].value)


def of_training(name: str, region: str) -> float | None:
    """Return the value of a training job quota; None if it is not known here and was not set."""
    code = code_or_name(name)
    if code in TRAINING_QUOTAS:
        return limit(code, region)
    with _lock:
        return _granted.get((name, region), _everywhere.get(name))


def request(code: str, vcpus: float, region: str) -> QuotaRequest:
    """Request a higher value; raise ApiError if it is not higher, or another request is still open."""
    if vcpus <= limit(code, region):
        raise ApiError(
            "IllegalArgumentException",
            f"You must provide a quota value greater than the current value of {limit(code, region):.0f}.",
        )
    if any(asked.status == "PENDING" for asked in requests(region, code)):
        raise ApiError(
            "ResourceAlreadyExistsException",
            "Only one open service quota increase request is allowed per quota.",
        )
    made = QuotaRequest(code=code, region=region, vcpus=vcpus)
    with _lock:
        _requests.append(made)
    return made


def requests(region: str, code: str | None = None) -> list[QuotaRequest]:
    with _lock:
        return [asked for asked in _requests if asked.region == region and code in (None, asked.code)]


def limit(code: str, region: str) -> float:
    """Return the quota's value now: a new account's, or the highest that was granted."""
    approved = [asked.vcpus for asked in requests(region, code) if asked.status == "APPROVED"]
    with _lock:
        granted = _granted.get((code, region), _everywhere.get(code, of_a_fresh_account(code)))
    return max(granted, *approved) if approved else granted


def refuse_above(instance_type: str, count: int, region: str, market: str = ON_DEMAND) -> None:
    """Raise EC2's VcpuLimitExceeded if `count` more instances would exceed the quota of their family."""
    if fitting(instance_type, count, region, market) < count:
        raise ApiError(*_REFUSALS[market](limit(str(code_of(instance_type, market)), region)))


def refusal(instance_type: str, region: str, market: str) -> str:
    """Return EC2's message for a launch that exceeds the quota."""
    return _REFUSALS[market](limit(str(code_of(instance_type, market)), region))[1]


def fitting(instance_type: str, count: int, region: str, market: str = ON_DEMAND) -> int:
    """Return how many of `count` more instances the quota of their family allows."""
    code, each = code_of(instance_type, market), vcpus_of(instance_type)
    if code is None or each == 0:
        return count
    return max(0, min(count, int(limit(code, region) - in_use(code, region)) // each))


_REFUSALS: Mapping[str, Callable[[float], tuple[str, str]]] = {
    ON_DEMAND: lambda allowed: (
        "VcpuLimitExceeded",
        (
            f"You have requested more vCPU capacity than your current vCPU limit of {allowed:.0f} allows for "
            "the instance bucket that the specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
        ),
    ),
    SPOT: lambda _allowed: ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
}


def in_use(code: str, region: str) -> int:
    """Return the vCPUs of the instances that run or start, as EC2 counts them."""
    return sum(
        vcpus_of(instance.instance_type)
        for instance in moto_backend("ec2", region).all_instances()
        if instance.state in ("pending", "running")
        and code_of(instance.instance_type, instance.lifecycle or ON_DEMAND) == code
    )


def code_of(instance_type: str, market: str) -> str | None:
    """Return the code of the quota that counts this type; None if the yard has none."""
    found = re.match(r"[a-z]+", instance_type)
    family = found[0] if found else ""
    for code, quota in QUOTAS.items():
        if quota.market == market and family in quota.families:
            return code
    return None


def vcpus_of(instance_type: str) -> int:
    """Return a type's vCPUs from moto or the catalogue; 0 for an unknown type."""
    from moto.ec2.models import instance_types

    described = instance_types.INSTANCE_TYPES.get(instance_type, {})
    return int(described.get("VCpuInfo", {}).get("DefaultVCpus", 0))


def approval_s() -> float:
    return float(os.environ.get(APPROVAL_VARIABLE) or APPROVAL_S)
