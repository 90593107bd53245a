"""Translates a template's properties into a request's parameters by the request's shape, and answers back.

So a type needs no table of its own. The way back, to the template's names, is for drift.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slipway.yard.errors import as_text, validation_error

# A tag is {Key, Value} in every template, but {TagKey, TagValue} in the requests of KMS and ECS.
TAG_KEY = {"tagkey": "key", "tagvalue": "value"}


def to_request(shape: Any, value: Any, where: str = "") -> Any:
    """Return `value` as botocore's `shape` needs it: case of names, types, JSON documents as text."""
    convert = _CONVERTERS.get(shape.type_name)
    return convert(shape, value, where) if convert else value


def like(template: Any, live: Any) -> Any:
    """Return the part of `live` that `template` mentions, in the template's names, types and order."""
    if isinstance(template, Mapping):
        live = _as_mapping(live)
        found = {key: lookup(live, key) for key in template}
        return {key: like(template[key], value) for key, value in found.items() if value is not None}
    if isinstance(template, list):
        return _like_list(template, live)
    return template if as_text(template) == as_text(live) else live


def lookup(mapping: Mapping[str, Any], name: str) -> Any:
    """Return the value under `name` in any case of letters; None if there is none."""
    wanted = name.lower()
    return next((value for key, value in mapping.items() if key.lower() == wanted), None)


def _structure(shape: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    members = {name.lower(): name for name in shape.members}
    members |= {plain: members[aws] for aws, plain in TAG_KEY.items() if aws in members}
    request = {}
    for key, item in value.items():
        name = members.get(key.lower())
        if name is None:
            raise validation_error(f"{where or shape.name}: no parameter for the property {key}")
        request[name] = to_request(shape.members[name], item, f"{where}/{key}")
    return request


def _list(shape: Any, value: Any, where: str) -> Any:
    if isinstance(value, Mapping):  # tags are a map, but the API takes a list
        value = [{"Key": key, "Value": item} for key, item in value.items()]
    if not isinstance(value, Sequence) or isinstance(value, str):
        value = [value]
    return [to_request(shape.member, item, where) for item in value]


def _map(shape: Any, value: Any, where: str) -> Any:
    if isinstance(value, list):  # tags are a list, but the API takes a map
        value = {item["Key"]: item.get("Value", "") for item in value}
    if not isinstance(value, Mapping):
        return value
    return {str(key): to_request(shape.value, item, f"{where}/{key}") for key, item in value.items()}


def _string(shape: Any, value: Any, _where: str) -> Any:
    """Write the value as text, an enumeration in the API's case: the schema has checked the template's."""
    text = json.dumps(value) if isinstance(value, dict | list) else as_text(value)
    words = getattr(shape, "enum", ())
    if not isinstance(text, str) or text in words:
        return text
    return next((word for word in words if word.lower() == text.lower()), text)


def _boolean(_shape: Any, value: Any, _where: str) -> Any:
    return value.lower() == "true" if isinstance(value, str) else value


def _number(convert: Callable[[str], Any]) -> Callable[[Any, Any, str], Any]:
    def converted(_shape: Any, value: Any, where: str) -> Any:
        try:
            return convert(value) if isinstance(value, str) else value
        except ValueError:
            raise validation_error(f"{where}: '{value}' is not a number") from None

    return converted


_CONVERTERS: Mapping[str, Callable[[Any, Any, str], Any]] = {
    "structure": _structure,
    "list": _list,
    "map": _map,
    "string": _string,
    "boolean": _boolean,
    "integer": _number(int),
    "long": _number(int),
    "float": _number(float),
    "double": _number(float),
}


def _like_list(template: list[Any], live: Any) -> list[Any]:
    """Put the template's items first and in its order, so that the API's order is not reported as drift."""
    if isinstance(live, Mapping):
        live = [{"Key": key, "Value": value} for key, value in live.items()]
    left, matched = list(live) if isinstance(live, list | tuple) else [], []
    for item in template:
        twin = next((other for other in left if like(item, other) == item), None)
        if twin is not None:
            left.remove(twin)
            matched.append(item)
    keys = {frozenset(item if isinstance(item, Mapping) else ()) for item in template}
    pattern = template[0] if len(keys) == 1 else None
    return matched + [like(pattern, item) if isinstance(pattern, Mapping) else item for item in left]


def _as_mapping(live: Any) -> Mapping[str, Any]:
    """Return a map: of a list of tags, or of a JSON document that the API returns as text."""
    if isinstance(live, str):
        return dict(json.loads(live))
    if isinstance(live, list):
        return {lookup(item, "key"): lookup(item, "value") for item in live}
    return live if isinstance(live, Mapping) else {}
