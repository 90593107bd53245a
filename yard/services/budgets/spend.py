"""What a budget has counted: the hours of EC2 instances with an activated tag, at the catalogue's prices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.jobs.words.catalogue.instances import find_instance_type
from slipway.yard.endpoint import ACCOUNT

# EC2 bills by the second, and a minute at least (EC2 pricing, "Per-second billing").
_LEAST = timedelta(minutes=1)
_ENDED = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_FILTER = re.compile(r"user:(?P<key>[^$]+)\$(?P<value>.*)")

_ended: dict[str, datetime] = {}  # when an instance was first seen to have ended


def actual_usd(budget: Mapping[str, Any], now: datetime) -> float:
    """Sum up the month so far. A budget without a filter by tag counts every instance."""
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    wanted = list((budget.get("CostFilters") or {}).get("TagKeyValue") or ())
    if not wanted:
        return sum(_usd(instance, month, now) for instance in _instances())
    total = 0.0
    for each in wanted:
        found = _FILTER.fullmatch(each)
        since = activated_at(found["key"]) if found else None
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


# Cost allocation tags: one counts in budgets from its activation on, and never what was before.
Parameters = Mapping[str, Any]

ACTIVE, INACTIVE = "Active", "Inactive"
_NOT_FOUND = {"Code": "TagKeysNotFoundException", "Message": "Tag keys not found"}

_activated: dict[str, datetime] = {}
_updated: dict[str, datetime] = {}


def reset() -> None:
    _activated.clear()
    _updated.clear()


def activated_at(key: str) -> datetime | None:
    """Return since when the tag counts; None: it does not."""
    return _activated.get(key)


def _list(parameters: Parameters, _region: str) -> dict[str, Any]:
    """List the tags that billing has seen; AWS needs up to a day for that, and the yard none."""
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
    """Find the tags that resources of EC2 carry, in all regions; AWS keeps some prefixes for itself."""
    from moto.ec2.models import ec2_backends

    keys = {
        key
        for backend in list(ec2_backends[ACCOUNT].values())
        for tags in list(backend.tags.values())
        for key in tags
    }
    return {key for key in keys if not key.startswith("aws:")} | set(_updated)


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "ListCostAllocationTags": _list,
    "UpdateCostAllocationTagsStatus": _update,
}
