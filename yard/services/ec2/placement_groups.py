"""EC2's placement groups, which moto lacks. They are only kept: they place no instance."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.services.recorded import given_tags

Parameters = Mapping[str, Any]
Group = dict[str, Any]

_groups: dict[tuple[str, str], Group] = {}  # (region, name) -> group
_lock = threading.Lock()

# EC2's filter -> the member that it compares.
_FILTERS = {
    "group-name": "GroupName",
    "group-arn": "GroupArn",
    "state": "State",
    "strategy": "Strategy",
    "spread-level": "SpreadLevel",
}


def reset() -> None:
    _groups.clear()


def is_there(name: str, region: str) -> bool:
    return (region, name) in _groups


def _create(parameters: Parameters, region: str) -> dict[str, Any]:
    name = parameters.get("GroupName") or f"pg-{secrets.token_hex(8)}"
    strategy = parameters.get("Strategy", "cluster")
    if "PartitionCount" in parameters and strategy != "partition":
        raise ApiError(
            "InvalidParameterCombination", "PartitionCount goes with the strategy 'partition' only"
        )
    group: Group = {
        "GroupName": name,
        "GroupId": f"pg-{secrets.token_hex(9)[:17]}",
        "GroupArn": f"arn:aws:ec2:{region}:{ACCOUNT}:placement-group/{name}",
        "State": "available",
        "Strategy": strategy,
        "Tags": given_tags(parameters),
    }
    group |= {
        member: parameters[member] for member in ("PartitionCount", "SpreadLevel") if member in parameters
    }
    with _lock:
        if (region, name) in _groups:
            raise ApiError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        _groups[region, name] = group
    return {"PlacementGroup": group}


def _describe(parameters: Parameters, region: str) -> dict[str, Any]:
    groups = [group for (where, _), group in _groups.items() if where == region]
    for parameter, member in {"GroupNames": "GroupName", "GroupIds": "GroupId"}.items():
        wanted = parameters.get(parameter, [])
        if unknown := set(wanted) - {group[member] for group in groups}:
            raise _unknown(", ".join(sorted(unknown)))
        groups = [group for group in groups if not wanted or group[member] in wanted]
    for wanted in parameters.get("Filters", []):
        groups = [group for group in groups if _passes(group, wanted["Name"], wanted.get("Values", []))]
    return {"PlacementGroups": groups}


def _delete(parameters: Parameters, region: str) -> dict[str, Any]:
    name = parameters["GroupName"]
    with _lock:
        if _groups.pop((region, name), None) is None:
            raise _unknown(name)
    return {}


def _passes(group: Group, name: str, allowed: list[str]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
    if name.startswith("tag:"):
        held = [tags[name[4:]]] if name[4:] in tags else []
    elif name == "tag-key":
        held = list(tags)
    elif name in _FILTERS:
        held = [str(group.get(_FILTERS[name], ""))]
    else:
        raise ApiError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return any(fnmatchcase(value, pattern) for value in held for pattern in allowed)


def _unknown(name: str) -> ApiError:
    return ApiError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "CreatePlacementGroup": _create,
    "DescribePlacementGroups": _describe,
    "DeletePlacementGroup": _delete,
}
