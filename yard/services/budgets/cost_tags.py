"""Cost allocation tags: one counts in budgets from its activation on, and never what was before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT

Parameters = Mapping[str, Any]

ACTIVE, INACTIVE = "Active", "Inactive"
_NOT_FOUND = {"Code": "TagKeysNotFoundException", "Message": "Tag keys not found"}

_activated: dict[str, datetime] = {}
_updated: dict[str, datetime] = {}


def call(operation: str, parameters: Parameters, _region: str) -> dict[str, Any]:
    return _OPERATIONS[operation](parameters)


def reset() -> None:
    _activated.clear()
    _updated.clear()


def activated_at(key: str) -> datetime | None:
    """Return since when the tag counts; None: it does not."""
    return _activated.get(key)


def _list(parameters: Parameters) -> dict[str, Any]:
    """List the tags that billing has seen; AWS needs up to a day for that, and the yard none."""
    asked = parameters.get("TagKeys")
    tags = [_shown(key) for key in sorted(_seen()) if asked is None or key in asked]
    if status := parameters.get("Status"):
        tags = [tag for tag in tags if tag["Status"] == status]
    return {"CostAllocationTags": tags if parameters.get("Type") != "AWSGenerated" else []}


def _update(parameters: Parameters) -> dict[str, Any]:
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


_OPERATIONS: Mapping[str, Callable[[Parameters], dict[str, Any]]] = {
    "ListCostAllocationTags": _list,
    "UpdateCostAllocationTagsStatus": _update,
}
