"""Budgets that count and tell: what was spent, and mails when a threshold is passed.

AWS looks 8 to 12 hours late; the yard looks when a budget is described, and once a minute. It forecasts
nothing, as AWS does not before an account has five weeks of costs.
"""

from __future__ import annotations

import logging
import operator
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.budgets.spend import actual_usd
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
_told: set[tuple[str, ...]] = set()  # thresholds that were told of, each once a month
_lock = threading.RLock()
_started = threading.Lock()  # the first caller takes it forever


def call(operation: str, parameters: Parameters, _region: str) -> dict[str, Any]:
    from moto.core.exceptions import JsonRESTError

    try:
        found = _OPERATIONS[operation](parameters)
    except JsonRESTError as error:
        raise ApiError(str(error.error_type), str(error.message)) from error
    if _started.acquire(blocking=False):
        threading.Thread(target=_look_forever, name="budgets", daemon=True).start()
    look()
    return found


def look() -> None:
    """Tell of every threshold that was passed and not told of yet."""
    now = datetime.now(UTC)
    with _lock:
        for name, budget in list(moto_backend("budgets").budgets[ACCOUNT].items()):
            for notification in budget.notifications:
                try:
                    _look_at(name, budget.budget, notification, now)
                except Exception:
                    log.exception("budget %s could not be evaluated", name)


def reset() -> None:
    with _lock:
        _told.clear()


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
    problem = delivery.publish(
        Publication(
            service="budgets",
            source_arn=arn,
            topic_arn=subscriber["Address"],
            subject=subject[:100],
            message=text,
        )
    )
    if problem:
        delivery.lost(arn, subscriber["Address"], problem)


def _create(parameters: Parameters) -> dict[str, Any]:
    moto_backend("budgets").create_budget(
        parameters["AccountId"],
        dict(parameters["Budget"]),
        [dict(subscriber) for subscriber in parameters.get("NotificationsWithSubscribers") or ()],
    )
    return {}


def _describe(parameters: Parameters) -> dict[str, Any]:
    return {
        "Budget": _counted(
            moto_backend("budgets").describe_budget(parameters["AccountId"], parameters["BudgetName"])
        )
    }


def _describe_all(parameters: Parameters) -> dict[str, Any]:
    return {
        "Budgets": [
            _counted(budget) for budget in moto_backend("budgets").describe_budgets(parameters["AccountId"])
        ]
    }


def _counted(budget: dict[str, Any]) -> dict[str, Any]:
    spent = actual_usd(budget, datetime.now(UTC))
    return {**budget, "CalculatedSpend": {"ActualSpend": {"Amount": f"{spent:.6f}", "Unit": "USD"}}}


_OPERATIONS: Mapping[str, Callable[[Parameters], dict[str, Any]]] = {
    "CreateBudget": _create,
    "DescribeBudget": _describe,
    "DescribeBudgets": _describe_all,
}
