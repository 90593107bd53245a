"""AWS Budgets: computes what was spent, and sends mails when a threshold is passed.

AWS updates budgets 8 to 12 hours late; the yard does so when a budget is described, and once a minute. It
makes no forecasts; AWS needs five weeks of costs for one.
"""

from __future__ import annotations

import logging
import operator
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from slipway.jobs.words.catalogue.instances import find_instance_type
from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError, going_on
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.sns import delivery, mail
from slipway.yard.services.sns.delivery import Publication

log = logging.getLogger("yard.budgets")

Parameters = Mapping[str, Any]

EVERY_S = 60.0
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "EQUAL_TO": operator.eq,
    "GREATER_THAN": operator.gt,
    "LESS_THAN": operator.lt,
}
_told: set[tuple[str, ...]] = set()  # thresholds that were reported; each is, once a month
_lock = threading.RLock()
_started = threading.Lock()  # the first caller takes it forever


def _of_budgets(
    act: Callable[[Parameters], dict[str, Any]], parameters: Parameters, _region: str
) -> dict[str, Any]:
    from moto.core.exceptions import JsonRESTError

    try:
        found = act(parameters)
    except JsonRESTError as error:
        raise ApiError(str(error.error_type), str(error.message)) from error
    if _started.acquire(blocking=False):
        threading.Thread(target=_look_forever, name="budgets", daemon=True).start()
    look()
    return found


def look() -> None:
    """Report every threshold that was passed and not reported yet."""
    now = datetime.now(UTC)
    with _lock:
        for name, budget in list(moto_backend("budgets").budgets[ACCOUNT].items()):
            for notification in budget.notifications:
                with going_on(log, "budget %s could not be evaluated", name):
                    _look_at(name, budget.budget, notification, now)


def reset() -> None:
    with _lock:
        _told.clear()
        _activated.clear()
        _updated.clear()


def _look_forever() -> None:
    pause = threading.Event()
    while not pause.wait(EVERY_S):
        look()


def _look_at(name: str, budget: Mapping[str, Any], notification: Any, now: datetime) -> None:
    details = notification.details
    if details["NotificationType"] != "ACTUAL":
        return
    limit = float(budget["BudgetLimit"]["Amount"])
    is_share = details.get("ThresholdType", "PERCENTAGE") == "PERCENTAGE"
    threshold = float(details["Threshold"]) * (limit / 100 if is_share else 1)
    spent = actual_usd(budget, now)
    key = (name, f"{now:%Y-%m}", details["ComparisonOperator"], str(threshold))
    if key in _told or not _COMPARE[details["ComparisonOperator"]](spent, threshold):
        return
    _told.add(key)
    text = (
        f"Budget {name}: {spent:.2f} USD of {limit:.2f} USD were spent; you asked to hear of {threshold:.2f}."
    )
    for subscriber in notification.subscribers:
        _tell(name, subscriber, text)


def _tell(name: str, subscriber: Mapping[str, str], text: str) -> None:
    subject = f"AWS Budgets: {name} has exceeded your alert threshold"
    if subscriber["SubscriptionType"] == "EMAIL":
        mail.send(subscriber["Address"], subject, text)
        return
    arn = f"arn:aws:budgets::{ACCOUNT}:budget/{name}"
    publication = Publication(
        service="budgets",
        source_arn=arn,
        topic_arn=subscriber["Address"],
        subject=subject[:100],
        message=text,
    )
    if problem := delivery.publish(publication):
        delivery.lost(arn, subscriber["Address"], problem)


def _create(parameters: Parameters) -> dict[str, Any]:
    moto_backend("budgets").create_budget(
        parameters["AccountId"],
        dict(parameters["Budget"]),
        [dict(subscriber) for subscriber in parameters.get("NotificationsWithSubscribers") or ()],
    )
    return {}


def _describe(parameters: Parameters) -> dict[str, Any]:
    budget = moto_backend("budgets").describe_budget(parameters["AccountId"], parameters["BudgetName"])
    return {"Budget": _counted(budget)}


def _describe_all(parameters: Parameters) -> dict[str, Any]:
    budgets = moto_backend("budgets").describe_budgets(parameters["AccountId"])
    return {"Budgets": [_counted(budget) for budget in budgets]}


def _counted(budget: dict[str, Any]) -> dict[str, Any]:
    spent = actual_usd(budget, datetime.now(UTC))
    return {**budget, "CalculatedSpend": {"ActualSpend": {"Amount": f"{spent:.6f}", "Unit": "USD"}}}


# The costs in a budget: the hours of instances with an activated tag, at the catalogue's prices.
# EC2 bills by the second, and at least a minute (EC2 pricing, "Per-second billing").
_LEAST = timedelta(minutes=1)
_ENDED = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_FILTER = re.compile(r"user:(?P<key>[^$]+)\$(?P<value>.*)")

_ended: dict[str, datetime] = {}  # instance id -> when it was first seen to have ended


def actual_usd(budget: Mapping[str, Any], now: datetime) -> float:
    """Return the costs of the month so far. A budget without a tag filter counts every instance."""
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    wanted = list((budget.get("CostFilters") or {}).get("TagKeyValue") or ())
    if not wanted:
        return sum(_usd(instance, month, now) for instance in _instances())
    total = 0.0
    for each in wanted:
        found = _FILTER.fullmatch(each)
        since = _activated.get(found["key"]) if found else None
        if found is None or since is None:
            continue
        for instance in _instances():
            if {tag["key"]: tag["value"] for tag in instance.get_tags()}.get(found["key"]) == found["value"]:
                total += _usd(instance, max(month, since), now)
    return total


def _usd(instance: Any, since: datetime, now: datetime) -> float:
    begin: datetime = instance.launch_time.replace(tzinfo=UTC)
    end = max(_end(instance, now), begin + _LEAST)
    hours = max(timedelta(), end - max(begin, since)) / timedelta(hours=1)
    known = find_instance_type(instance.instance_type)
    return hours * (known.price.usd_per_hour if known and known.price else 0.0)


def _end(instance: Any, now: datetime) -> datetime:
    if instance.state not in ("terminated", "stopped"):
        return now
    if found := _ENDED.search(instance.state_transition_reason or ""):
        return datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    return _ended.setdefault(instance.id, now)


def _instances() -> Iterator[Any]:
    from moto.ec2.models import ec2_backends

    for backend in list(ec2_backends[ACCOUNT].values()):
        for reservation in list(backend.reservations.values()):
            yield from reservation.instances


# Cost allocation tags: a tag counts only from its activation on.

ACTIVE, INACTIVE = "Active", "Inactive"
_NOT_FOUND = {"Code": "TagKeysNotFoundException", "Message": "Tag keys not found"}

_activated: dict[str, datetime] = {}  # key -> since when it counts
_updated: dict[str, datetime] = {}


def _list(parameters: Parameters, _region: str) -> dict[str, Any]:
    """List the tags that billing has seen: on AWS up to a day late, here at once."""
    asked = parameters.get("TagKeys")
    tags = [_shown(key) for key in sorted(_seen()) if asked is None or key in asked]
    if status := parameters.get("Status"):
        tags = [tag for tag in tags if tag["Status"] == status]
    return {"CostAllocationTags": tags if parameters.get("Type") != "AWSGenerated" else []}


def _update(parameters: Parameters, _region: str) -> dict[str, Any]:
    errors, seen = [], _seen()
    for entry in parameters["CostAllocationTagsStatus"]:
        key, now = entry["TagKey"], datetime.now(UTC)
        if key not in seen:
            errors.append({"TagKey": key, **_NOT_FOUND})
            continue
        _updated[key] = now
        if entry["Status"] == ACTIVE:
            _activated.setdefault(key, now)
        else:
            _activated.pop(key, None)
    return {"Errors": errors}


def _shown(key: str) -> dict[str, str]:
    shown = {"TagKey": key, "Type": "UserDefined", "Status": ACTIVE if key in _activated else INACTIVE}
    if at := _updated.get(key):
        shown["LastUpdatedDate"] = at.isoformat(timespec="seconds")
    return shown


def _seen() -> set[str]:
    """Return the tag keys of EC2's resources in all regions, without AWS's reserved prefixes."""
    from moto.ec2.models import ec2_backends

    keys = {
        key
        for backend in list(ec2_backends[ACCOUNT].values())
        for tags in list(backend.tags.values())
        for key in tags
    }
    return {key for key in keys if not key.startswith("aws:")} | set(_updated)


_BUDGETS: Mapping[str, Callable[[Parameters], dict[str, Any]]] = {
    "CreateBudget": _create,
    "DescribeBudget": _describe,
    "DescribeBudgets": _describe_all,
}
OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "ListCostAllocationTags": _list,
    "UpdateCostAllocationTagsStatus": _update,
    **{name: partial(_of_budgets, act) for name, act in _BUDGETS.items()},
}
