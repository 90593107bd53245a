"""Drift detection: compares a stack's resources as they are now with how the stack made them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from slipway.yard.cloudformation.engine.changes import ABSENT, differences, value_at
from slipway.yard.cloudformation.engine.records import Record
from slipway.yard.cloudformation.engine.stack import Detection, PropertyDifference, ResourceDrift, Stack
from slipway.yard.cloudformation.engine.steps import (
    EngineServices,
    LogicalResource,
    context_of,
    handler_reason,
)
from slipway.yard.cloudformation.template import schemas

KINDS = {(False, True): "ADD", (True, False): "REMOVE", (True, True): "NOT_EQUAL"}  # by (expected, found)


def detect(stack: Stack, surroundings: EngineServices, only: Collection[str] = ()) -> Detection:
    """Read every resource, or only those named, and keep the result with the stack."""
    with stack.lock:
        records = [record for name, record in stack.records.items() if not only or name in only]
    found = {record.logical_id: compare(stack, record, surroundings) for record in records}
    statuses = [drift.status for drift in found.values()]
    drifted = sum(status in ("MODIFIED", "DELETED") for status in statuses)
    status = "DRIFTED" if drifted else "UNKNOWN" if "UNKNOWN" in statuses else "IN_SYNC"
    detection = Detection(stack_id=stack.stack_id, status=status, drifted=drifted)
    with stack.lock:
        stack.drifts.update(found)
        stack.detection = detection
    return detection


def compare(stack: Stack, record: Record, surroundings: EngineServices) -> ResourceDrift:
    """Compare one resource: NOT_CHECKED if its provider cannot read it, UNKNOWN if reading fails."""
    provider = surroundings.providers(record.type)
    # Resources are read with the caller's rights, not the stack's role.
    context = replace(context_of(stack, surroundings, LogicalResource.of(record)), role_arn="")
    try:
        actual = provider.read(context, record.resource, record.properties)
    except NotImplementedError:
        return ResourceDrift(record=record, status="NOT_CHECKED")
    except Exception as error:  # noqa: BLE001 - what one resource raises must not hide the drift of the others
        return ResourceDrift(record=record, status="UNKNOWN", reason=handler_reason(error))
    if actual is None:
        return ResourceDrift(record=record, status="DELETED")
    tags = actual.get("Tags")
    if isinstance(tags, list):
        # Tags whose keys begin with aws: come from services, not from users.
        user_tags = [tag for tag in tags if not str(dict(tag).get("Key", "")).startswith("aws:")]
        actual = {**actual, "Tags": user_tags}
    live = schemas.coerce(record.type, _asked(record.properties, actual))
    found = tuple(_differences(record.properties, live))
    return ResourceDrift(
        record=record, status="MODIFIED" if found else "IN_SYNC", actual=live, differences=found
    )


def _asked(expected: Any, actual: Any) -> Any:
    """Return only what the template sets, at any depth: a service's defaults are no drift."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return {key: _asked(item, actual[key]) for key, item in expected.items() if key in actual}
    if isinstance(expected, list) and isinstance(actual, list):
        known = [_asked(one, other) for one, other in zip(expected, actual, strict=False)]
        return known + actual[len(known) :]
    return actual


def _differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[PropertyDifference]:
    for name in expected:
        if _unordered(expected[name]) == _unordered(actual.get(name)):
            continue
        sides = ({name: expected[name]}, {name: actual[name]} if name in actual else {})
        for path in differences(*sides):
            before, after = value_at(expected, path), value_at(actual, path)
            yield PropertyDifference(
                path="/" + "/".join(path),
                kind=KINDS[before is not ABSENT, after is not ABSENT],
                expected=_text(before),
                actual=_text(after),
            )


def _unordered(value: Any) -> Any:
    """Sort lists, since services return them in their own order."""
    if isinstance(value, dict):
        return {key: _unordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((_unordered(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def _text(value: Any) -> str:
    if value is ABSENT:
        return "null"
    return value if isinstance(value, str) else json.dumps(value)
