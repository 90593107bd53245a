"""Stack policies: which resources an update may touch. Without one, all; with one, only what it allows.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/protect-stack-resources.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from slipway.yard.errors import ApiError


def check(body: str) -> str:
    """The policy as it came; ValidationError for what is none."""
    try:
        statements = json.loads(body)["Statement"]
        well_formed = all(
            one["Effect"] in ("Allow", "Deny") and _resources(one) for one in _listed(statements)
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ApiError(
            "ValidationError", f"Error validating stack policy: Invalid stack policy: {error!r}"
        ) from error
    if not well_formed:
        raise ApiError(
            "ValidationError",
            "Error validating stack policy: Invalid stack policy: every statement needs an Effect of Allow or"
            " Deny and a Resource or NotResource",
        )
    return body


def denies(body: str | None, action: str, logical_id: str, resource_type: str) -> bool:
    """Return True if the policy forbids the update action, such as Update:Replace, on the resource."""
    if body is None:
        return False
    applying = [
        one["Effect"]
        for one in _listed(json.loads(body)["Statement"])
        if _names_action(one, action) and _names_resource(one, logical_id) and _holds(one, resource_type)
    ]
    return "Deny" in applying or "Allow" not in applying


def _names_action(statement: Mapping[str, Any], action: str) -> bool:
    if "NotAction" in statement:
        return not _any_matches(statement["NotAction"], action)
    return _any_matches(statement.get("Action", []), action)


def _names_resource(statement: Mapping[str, Any], logical_id: str) -> bool:
    named = _any_matches(_resources(statement), f"LogicalResourceId/{logical_id}")
    return not named if "NotResource" in statement else named


def _holds(statement: Mapping[str, Any], resource_type: str) -> bool:
    conditions = statement.get("Condition") or {}
    return all(
        _any_matches(wanted, resource_type)
        for condition in conditions.values()
        for key, wanted in condition.items()
        if key == "ResourceType"
    )


def _resources(statement: Mapping[str, Any]) -> Any:
    return statement.get("Resource", statement.get("NotResource"))


def _any_matches(patterns: Any, value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in _listed(patterns))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
