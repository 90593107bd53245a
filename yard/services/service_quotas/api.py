"""Service Quotas of EC2, of which moto has none: as of an account whose quotas were raised for our clusters.

Another quota is one line of QUOTAS. All count vCPUs; codes and names are of Service Quotas' console.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.services.recorded import page
from slipway.yard.services.registry import not_emulated


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceQuota:
    name: str
    vcpus: int
    default_vcpus: int


# A fresh account has 0 of the accelerated ones; the yard is an account that asked and got.
QUOTAS: Mapping[str, ServiceQuota] = {
    "L-1216C47A": ServiceQuota(
        name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", vcpus=4096, default_vcpus=5
    ),
    "L-2C3B7624": ServiceQuota(name="Running On-Demand Trn instances", vcpus=4096, default_vcpus=0),
    "L-34B43A08": ServiceQuota(
        name="All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", vcpus=4096, default_vcpus=5
    ),
    "L-417A185B": ServiceQuota(name="Running On-Demand P instances", vcpus=4096, default_vcpus=0),
    "L-6E869C2A": ServiceQuota(name="Running On-Demand DL instances", vcpus=4096, default_vcpus=0),
}
SERVICE = "ec2"

Parameters = Mapping[str, Any]


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    if operation not in _OPERATIONS:
        raise not_emulated("service-quotas", operation)
    if parameters.get("ServiceCode", SERVICE) != SERVICE:
        raise _missing(f"quotas of '{parameters['ServiceCode']}' in the yard; it has those of {SERVICE}")
    return _OPERATIONS[operation](parameters, region)


def _get(parameters: Parameters, region: str, *, as_default: bool = False) -> dict[str, Any]:
    code = parameters["QuotaCode"]
    if code not in QUOTAS:
        raise _missing(f"quota '{code}' in the yard; it has {', '.join(QUOTAS)}")
    return {"Quota": _described(code, region, as_default)}


def _list(parameters: Parameters, region: str, *, as_default: bool = False) -> dict[str, Any]:
    found = [_described(code, region, as_default) for code in QUOTAS]
    shown, more = page(found, {name[0].lower() + name[1:]: value for name, value in parameters.items()})
    return {"Quotas": shown, **{name[0].upper() + name[1:]: value for name, value in more.items()}}


def _described(code: str, region: str, as_default: bool) -> dict[str, Any]:
    quota = QUOTAS[code]
    return {
        "ServiceCode": SERVICE,
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:{SERVICE}/{code}",
        "QuotaCode": code,
        "QuotaName": quota.name,
        "Value": float(quota.default_vcpus if as_default else quota.vcpus),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _missing(what: str) -> ApiError:
    return ApiError("NoSuchResourceException", f"there is no {what}", status=404)


_OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "GetServiceQuota": _get,
    "ListServiceQuotas": _list,
    "GetAWSDefaultServiceQuota": lambda parameters, region: _get(parameters, region, as_default=True),
    "ListAWSDefaultServiceQuotas": lambda parameters, region: _list(parameters, region, as_default=True),
}
