"""S3's lifecycle rules: CloudFormation flattens what S3's own request nests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    expiration = {
        "Days": rule.get("ExpirationInDays"),
        "Date": rule.get("ExpirationDate"),
        "ExpiredObjectDeleteMarker": rule.get("ExpiredObjectDeleteMarker"),
    }
    noncurrent_days = rule.get("NoncurrentVersionExpirationInDays")
    nested = {
        "ID": rule.get("Id"),
        "Status": rule["Status"],
        "Filter": lifecycle_filter(rule),
        "Expiration": _present(expiration),
        "Transitions": _transitions(rule, "Transition", days="Days"),
        "NoncurrentVersionTransitions": _transitions(
            rule, "NoncurrentVersionTransition", days="NoncurrentDays"
        ),
        "NoncurrentVersionExpiration": rule.get("NoncurrentVersionExpiration")
        or _present({"NoncurrentDays": noncurrent_days}),
        "AbortIncompleteMultipartUpload": rule.get("AbortIncompleteMultipartUpload"),
    }
    return {name: value for name, value in nested.items() if value}


def lifecycle_filter(rule: Mapping[str, Any]) -> dict[str, Any]:
    """S3 takes one condition as it is and several under And."""
    conditions = _present(
        {name: rule.get(name) for name in ("Prefix", "ObjectSizeGreaterThan", "ObjectSizeLessThan")}
    )
    tags = [dict(tag) for tag in rule.get("TagFilters") or []]
    if len(conditions) + len(tags) > 1:
        return {"And": {**conditions, **({"Tags": tags} if tags else {})}}
    return conditions or ({"Tag": tags[0]} if tags else {"Prefix": ""})


def renamed(item: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    return {words.get(name, name): value for name, value in item.items()}


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _transitions(rule: Mapping[str, Any], name: str, *, days: str) -> list[dict[str, Any]]:
    single = [rule[name]] if rule.get(name) else []
    words = {"TransitionInDays": days, "TransitionDate": "Date"}
    return [renamed(item, words) for item in [*(rule.get(f"{name}s") or []), *single]]
