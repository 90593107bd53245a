"""The API of Service Quotas, which moto lacks; quotas.py keeps the quotas."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.machines.hosts import reconciler
from slipway.yard.services.recorded import paged
from slipway.yard.services.service_quotas import quotas
from slipway.yard.services.service_quotas.quotas import QuotaRequest

SERVICE_NAMES: Mapping[str, str] = {
    "ec2": "Amazon Elastic Compute Cloud (Amazon EC2)",
    "sagemaker": "Amazon SageMaker",
}

Parameters = Mapping[str, Any]


def _of_known_service(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    if parameters.get("ServiceCode", "ec2") not in SERVICE_NAMES:
        known = " and ".join(SERVICE_NAMES)
        reason = f"it has only the quotas of {known}, not of '{parameters['ServiceCode']}'"
        raise not_emulated("service-quotas", operation, reason=reason)
    return _ANSWERS[operation](parameters, region)


def _get(parameters: Parameters, region: str, *, as_default: bool = False) -> dict[str, Any]:
    return {"Quota": _described(_known(parameters), region, as_default)}


def _list(parameters: Parameters, region: str, *, as_default: bool = False) -> dict[str, Any]:
    found = [_described(code, region, as_default) for code in quotas.known_codes(parameters["ServiceCode"])]
    return paged("Quotas", found, parameters, asked=("NextToken", "MaxResults"))


def _request(parameters: Parameters, region: str) -> dict[str, Any]:
    made = quotas.request(_known(parameters), parameters["DesiredValue"], region)
    # Groups then launch what the old quota prevented.
    wake = threading.Timer(quotas.approval_s(), reconciler.wake)
    wake.daemon = True
    wake.start()
    return {"RequestedQuota": _requested(made)}


def _history(parameters: Parameters, region: str) -> dict[str, Any]:
    wanted = parameters.get("Status")
    found = quotas.requests(region, parameters.get("QuotaCode"))
    return {"RequestedQuotas": [_requested(each) for each in found if wanted in (None, each.status)]}


def _requested(asked: QuotaRequest) -> dict[str, Any]:
    quota = _described(asked.code, asked.region, as_default=False)
    names = ("ServiceCode", "ServiceName", "QuotaCode", "QuotaName", "QuotaArn")
    return {
        **{name: quota[name] for name in names},
        "Id": asked.id,
        "DesiredValue": asked.vcpus,
        "Status": asked.status,
        "Created": asked.created,
        "Requester": "{}",
        "GlobalQuota": False,
        "Unit": "None",
    }


def _known(parameters: Parameters) -> str:
    code, known = str(parameters["QuotaCode"]), quotas.known_codes(parameters["ServiceCode"])
    if code not in known:
        words = f"there is no quota '{code}' in the yard; it has {', '.join(known)}"
        raise ApiError("NoSuchResourceException", words, status=404)
    return code


def _described(code: str, region: str, as_default: bool) -> dict[str, Any]:
    service = quotas.service_of(code)
    return {
        "ServiceCode": service,
        "ServiceName": SERVICE_NAMES[service],
        "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:{service}/{code}",
        "QuotaCode": code,
        "QuotaName": quotas.name_of(code),
        "Value": quotas.of_a_fresh_account(code) if as_default else quotas.limit(code, region),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


_ANSWERS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "GetServiceQuota": _get,
    "ListServiceQuotas": _list,
    "GetAWSDefaultServiceQuota": lambda parameters, region: _get(parameters, region, as_default=True),
    "RequestServiceQuotaIncrease": _request,
    "ListRequestedServiceQuotaChangeHistory": _history,
    "ListRequestedServiceQuotaChangeHistoryByQuota": _history,
    "ListAWSDefaultServiceQuotas": lambda parameters, region: _list(parameters, region, as_default=True),
}
OPERATIONS = {operation: partial(_of_known_service, operation) for operation in _ANSWERS}
