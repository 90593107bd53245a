"""Reads what CloudFormation knows of each resource type from the schemas that cfn-lint bundles.

schema_checks.py checks the schemas' keywords. A value that is not JSON, such as a Pending, is not known yet
and passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from slipway.yard.cloudformation.template.schema_checks import problems, property_schema, resolved
from slipway.yard.errors import as_text

SCHEMA_REGION = "us-east-1"  # the region with the most types
PREFIX = "/properties/"
NO_SCHEMA: Mapping[str, Any] = {}
# Built into CloudFormation, without real schemas; those of cfn-lint mislead.
SPECIAL = frozenset({"AWS::CDK::Metadata"})
OPEN_ENDED = frozenset({"AWS::CloudFormation::CustomResource", "AWS::CloudFormation::Stack"})

Schema = Mapping[str, Any]


def is_known(resource_type: str) -> bool:
    """Return True if CloudFormation has the type, whether or not the yard emulates it."""
    return resource_type in SPECIAL or schema(resource_type) is not NO_SCHEMA


def create_only(resource_type: str) -> tuple[str, ...]:
    """Return the paths (`A/B`, `*` for any item) of properties that cannot change without a replacement."""
    return _paths(resource_type, "createOnlyProperties")


def conditional_create_only(resource_type: str) -> tuple[str, ...]:
    """Return the paths of properties whose change may need a replacement."""
    return _paths(resource_type, "conditionalCreateOnlyProperties")


def read_only(resource_type: str) -> tuple[str, ...]:
    return _paths(resource_type, "readOnlyProperties")


def primary_identifier(resource_type: str) -> tuple[str, ...]:
    return _paths(resource_type, "primaryIdentifier")


def is_updatable(resource_type: str) -> bool:
    """Return False for a type without an update handler, which is replaced on every change."""
    handlers = schema(resource_type).get("handlers")
    return not handlers or "update" in handlers


@lru_cache(maxsize=512)
def permissions(resource_type: str, verb: str = "") -> tuple[str, ...]:
    """List the actions that the type's handlers may need, limited to one of create, update, delete, read."""
    handlers = schema(resource_type).get("handlers") or {}
    chosen = [handler for name, handler in handlers.items() if verb in ("", name)]
    return tuple(dict.fromkeys(action for handler in chosen for action in handler.get("permissions") or ()))


def property_type(resource_type: str, path: str) -> str:
    """Return the schema's type of the property at `A/B`; string if the schema does not say."""
    whole = schema(resource_type)
    part: Schema = whole
    for name in path.split("/"):
        part = resolved(property_schema(resolved(part, whole), name, whole), whole)
    kind = part.get("type", "string")
    return str(kind if isinstance(kind, str) else kind[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class TagProperty:
    """The property that holds a type's tags, and the form of the tags."""

    name: str
    is_map: bool
    propagates: bool  # to the instances of an Auto Scaling group
    is_updatable: bool


@lru_cache(maxsize=512)
def tag_property(resource_type: str) -> TagProperty | None:
    """Return the property that holds the tags of this type; None if it has no tags."""
    whole = schema(resource_type)
    tagging = whole.get("tagging") or {}
    name = str(tagging.get("tagProperty", f"{PREFIX}Tags")).removeprefix(PREFIX)
    part = resolved((whole.get("properties") or {}).get(name) or {}, whole)
    if not part or not tagging.get("taggable", True) or name in read_only(resource_type):
        return None
    items = resolved(part.get("items") or {}, whole).get("properties") or {}
    is_map = "array" not in str(part.get("type"))
    if not is_map and not {"Key", "Value"} <= set(items):
        return None
    return TagProperty(
        name=name,
        is_map=is_map,
        propagates="PropagateAtLaunch" in items,
        is_updatable=bool(tagging.get("tagUpdatable", True)) and name not in create_only(resource_type),
    )


def has_attribute(resource_type: str, attribute: str) -> bool:
    """Return True if Fn::GetAtt may ask for the attribute."""
    if schema(resource_type) is NO_SCHEMA or resource_type.startswith("Custom::"):
        return True
    known = _attributes(resource_type)
    if resource_type in OPEN_ENDED:  # their attributes are patterns, not names
        return any(re.fullmatch(pattern, attribute) for pattern in known)
    return any(_matches(pattern.split("."), attribute.split(".")) for pattern in known)


def coerce(resource_type: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties in the schema's types: CloudFormation accepts "5" for 5, "true" for true."""
    root = schema(resource_type)
    coerced = _coerced(dict(properties), root, root)
    assert isinstance(coerced, dict)
    return coerced


def check(resource_type: str, properties: Mapping[str, Any]) -> tuple[str, ...]:
    """List the problems of the properties, one line each in CloudFormation's words."""
    if resource_type in SPECIAL or schema(resource_type) is NO_SCHEMA:
        return ()
    found = problems(coerce(resource_type, properties), schema(resource_type))
    settable = {*create_only(resource_type), *(schema(resource_type).get("required") or ())}
    given = set(read_only(resource_type)) & set(properties) - settable
    extraneous = (f"#: extraneous key [{name}] is not permitted: it is read-only" for name in given)
    return tuple(sorted({*found, *extraneous}))


@lru_cache(maxsize=512)
def schema(resource_type: str) -> Schema:
    """Return the resource schema, or NO_SCHEMA. The first call loads cfn-lint (about 2 s)."""
    if resource_type in SPECIAL:
        return NO_SCHEMA
    from cfnlint.schema import ResourceNotFoundError
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    try:
        found: Schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(SCHEMA_REGION, resource_type).schema
    except ResourceNotFoundError:
        return NO_SCHEMA
    return found


@lru_cache(maxsize=512)
def _attributes(resource_type: str) -> tuple[str, ...]:
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    return tuple(PROVIDER_SCHEMA_MANAGER.get_type_getatts(resource_type, SCHEMA_REGION))


def _matches(pattern: list[str], parts: list[str]) -> bool:
    return len(pattern) == len(parts) and all(
        one in ("*", other) for one, other in zip(pattern, parts, strict=True)
    )


def _paths(resource_type: str, key: str) -> tuple[str, ...]:
    paths = schema(resource_type).get(key) or ()
    return tuple(path.removeprefix(PREFIX).replace("/items/", "/*/") for path in paths)


def _coerced(value: Any, part: Schema, root: Schema) -> Any:
    part = resolved(part, root)
    if isinstance(value, dict):
        return {key: _coerced(item, property_schema(part, key, root), root) for key, item in value.items()}
    if isinstance(value, list):
        items = part.get("items")
        return [_coerced(item, items if isinstance(items, dict) else {}, root) for item in value]
    convert = COERCIONS.get(part.get("type") if isinstance(part.get("type"), str) else None)
    return value if convert is None else convert(value)


def _to_number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(value) if value.strip().lstrip("+-").isdigit() else number


def _to_boolean(value: Any) -> Any:
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


COERCIONS: dict[str | None, Callable[[Any], Any]] = {
    "string": as_text,
    "integer": _to_number,
    "number": _to_number,
    "boolean": _to_boolean,
}
