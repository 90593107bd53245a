"""Checks values against CloudFormation's resource schemas, in CloudFormation's words for each keyword.

To check another keyword: one function here and its line in KEYWORDS.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
COMBINING = ("allOf", "anyOf", "oneOf")
Problems = Iterator[str]  # each "<path>: <message>", the path relative to the value at hand


def problems(value: Any, root: Schema) -> Problems:
    """Yield everything that is wrong with the value, as `#/path: message`."""
    for problem in _Visit(root).problems(value, root):
        yield f"#{problem}"


def resolved(part: Schema, root: Schema) -> Schema:
    """Return the part of the schema to which a `$ref` points."""
    name = part.get("$ref")
    if not isinstance(name, str) or not name.startswith("#/"):
        return part
    target: Any = root
    for step in name[2:].split("/"):
        target = target.get(step, {})
    return resolved(target, root)


def property_schema(part: Schema, name: str, root: Schema) -> Schema:
    """Return the schema of one property, also from within oneOf and the like; if none, an empty one."""
    found = (part.get("properties") or {}).get(name) or next(_by_pattern(part, name), {})
    if isinstance(found, Mapping) and found:
        return found
    branches = (resolved(branch, root) for word in COMBINING for branch in part.get(word) or ())
    return next(filter(None, (property_schema(branch, name, root) for branch in branches)), {})


def _by_pattern(part: Schema, name: str) -> Iterator[Schema]:
    import regex

    for pattern, found in (part.get("patternProperties") or {}).items():
        if regex.search(pattern, name):
            yield found


class _Visit:
    """Walks over a value and its schema."""

    def __init__(self, root: Schema) -> None:
        self.root = root

    def problems(self, value: Any, part: Schema | bool) -> Problems:
        # A dynamic reference's value is read only when the resource is made.
        is_unresolved = isinstance(value, str) and "{{resolve:" in value
        if isinstance(part, bool) or not isinstance(value, JSON) or is_unresolved:
            return
        part = resolved(part, self.root)
        if "type" in part:
            types = [part["type"]] if isinstance(part["type"], str) else part["type"]
            if not any(_has_type(value, name) for name in types):
                expected = " or ".join(TYPE_NAMES.get(TYPES[name][0], "Null") for name in types)
                yield f": expected type: {expected}, found: {TYPE_NAMES.get(type(value), 'Null')}"
                return
        for keyword, (kind, check) in KEYWORDS.items():
            if keyword in part and isinstance(value, kind) and (kind is JSON or not isinstance(value, bool)):
                yield from check(self, part[keyword], value, part)

    def holds(self, value: Any, part: Schema) -> bool:
        return next(self.problems(value, part), None) is None


JSON = (dict, list, str, int, float, bool, type(None))
NUMBER = (int, float)
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str, int, float, bool),  # CloudFormation converts a scalar to a string
    "integer": (int,),
    "number": NUMBER,
    "boolean": (bool,),
    "null": (type(None),),
}
TYPE_NAMES = {
    dict: "JSONObject",
    list: "JSONArray",
    str: "String",
    int: "Integer",
    float: "Double",
    bool: "Boolean",
}


def _has_type(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number"))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _properties(visit: _Visit, argument: Schema, value: dict[str, Any], part: Schema) -> Problems:
    for name, item in value.items():
        if name in argument:
            yield from (f"/{name}{problem}" for problem in visit.problems(item, argument[name]))


def _pattern_properties(visit: _Visit, argument: Schema, value: dict[str, Any], part: Schema) -> Problems:
    for name, item in value.items():
        for found in _by_pattern(part, name):
            yield from (f"/{name}{problem}" for problem in visit.problems(item, found))


def _additional(visit: _Visit, argument: Any, value: dict[str, Any], part: Schema) -> Problems:
    known = part.get("properties") or {}
    for name in value:
        if name in known or next(_by_pattern(part, name), None) is not None:
            continue
        if argument is False:
            yield f": extraneous key [{name}] is not permitted"
        else:
            yield from (f"/{name}{problem}" for problem in visit.problems(value[name], argument))


def _required(visit: _Visit, argument: list[str], value: dict[str, Any], part: Schema) -> Problems:
    yield from (f": required key [{name}] not found" for name in argument if name not in value)


def _required_xor(visit: _Visit, argument: list[str], value: dict[str, Any], part: Schema) -> Problems:
    given = [name for name in argument if name in value]
    if len(given) != 1:
        yield f": exactly one of {argument} is required, found {given}"


def _required_or(visit: _Visit, argument: list[str], value: dict[str, Any], part: Schema) -> Problems:
    if not any(name in value for name in argument):
        yield f": at least one of {argument} is required"


def _dependent_excluded(visit: _Visit, argument: Any, value: dict[str, Any], part: Schema) -> Problems:
    for name, others in argument.items():
        if name in value:
            yield from (f": [{name}] cannot be given with [{other}]" for other in others if other in value)


def _dependent_required(visit: _Visit, argument: Any, value: dict[str, Any], part: Schema) -> Problems:
    for name, others in argument.items():
        if name in value and isinstance(others, list):
            yield from (f": [{name}] requires [{other}]" for other in others if other not in value)


def _items(visit: _Visit, argument: Any, value: list[Any], part: Schema) -> Problems:
    for index, item in enumerate(value):
        yield from (f"/{index}{problem}" for problem in visit.problems(item, argument))


def _unique(visit: _Visit, argument: bool, value: list[Any], part: Schema) -> Problems:
    texts = [json.dumps(item, sort_keys=True, default=str) for item in value]
    if argument and len(set(texts)) != len(texts):
        yield ": array items are not unique"


def _enum(visit: _Visit, argument: list[Any], value: Any, part: Schema) -> Problems:
    if isinstance(value, dict | list) or _shown(value) not in [_shown(item) for item in argument]:
        yield f": {_shown(value)} is not a valid enum value, which are {', '.join(map(_shown, argument))}"


def _enum_any_case(visit: _Visit, argument: list[str], value: str, part: Schema) -> Problems:
    if value.lower() not in [item.lower() for item in argument]:
        yield f": {value} is not a valid enum value, which are {', '.join(argument)}"


def _const(visit: _Visit, argument: Any, value: Any, part: Schema) -> Problems:
    if _shown(value) != _shown(argument):
        yield f": {_shown(value)} is not {_shown(argument)}"


def _pattern(visit: _Visit, argument: str, value: str, part: Schema) -> Problems:
    import regex

    if not regex.search(argument, value):
        yield f": string [{value}] does not match pattern {argument}"


def _multiple(visit: _Visit, argument: float, value: float, part: Schema) -> Problems:
    if value % argument:
        yield f": {value} is not a multiple of {argument}"


def _bound(words: str, holds: Callable[[Any, Any], bool], measure: Callable[[Any], Any]) -> Any:
    def check(visit: _Visit, argument: Any, value: Any, part: Schema) -> Problems:
        if not holds(measure(value), argument):
            yield ": " + words.format(argument, measure(value))

    return check


def _all_of(visit: _Visit, argument: list[Schema], value: Any, part: Schema) -> Problems:
    for schema in argument:
        yield from visit.problems(value, schema)


def _any_of(visit: _Visit, argument: list[Schema], value: Any, part: Schema) -> Problems:
    if not any(visit.holds(value, schema) for schema in argument):
        yield f": no subschema matched out of the total {len(argument)} subschemas"


def _one_of(visit: _Visit, argument: list[Schema], value: Any, part: Schema) -> Problems:
    matched = sum(visit.holds(value, schema) for schema in argument)
    if matched != 1:
        yield f": {matched} subschemas matched instead of one"


def _not(visit: _Visit, argument: Schema, value: Any, part: Schema) -> Problems:
    if visit.holds(value, argument):
        yield ": subject must not be valid against the schema of [not]"


def _itself(value: Any) -> Any:
    return value


# keyword -> (types of values that it applies to, its check)
KEYWORDS: dict[str, tuple[Any, Callable[[_Visit, Any, Any, Schema], Problems]]] = {
    "properties": (dict, _properties),
    "patternProperties": (dict, _pattern_properties),
    "additionalProperties": (dict, _additional),
    "required": (dict, _required),
    "requiredXor": (dict, _required_xor),
    "requiredOr": (dict, _required_or),
    "dependentExcluded": (dict, _dependent_excluded),
    "dependentRequired": (dict, _dependent_required),
    "items": (list, _items),
    "uniqueItems": (list, _unique),
    "minItems": (list, _bound("expected minimum item count: {}, found: {}", operator.ge, len)),
    "maxItems": (list, _bound("expected maximum item count: {}, found: {}", operator.le, len)),
    "enum": (JSON, _enum),
    "enumCaseInsensitive": (str, _enum_any_case),
    "const": (JSON, _const),
    "pattern": (str, _pattern),
    "minLength": (str, _bound("expected minLength: {}, actual: {}", operator.ge, len)),
    "maxLength": (str, _bound("expected maxLength: {}, actual: {}", operator.le, len)),
    "minimum": (NUMBER, _bound("{1} is not greater or equal to {0}", operator.ge, _itself)),
    "maximum": (NUMBER, _bound("{1} is not less or equal to {0}", operator.le, _itself)),
    "multipleOf": (NUMBER, _multiple),
    "allOf": (JSON, _all_of),
    "anyOf": (JSON, _any_of),
    "oneOf": (JSON, _one_of),
    "not": (JSON, _not),
}
