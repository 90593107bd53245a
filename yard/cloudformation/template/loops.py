"""Fn::ForEach of the language extensions, written out: what a loop says once stands there for each item.

Source: CloudFormation user guide, "Fn::ForEach". A loop over a parameter is refused: a template is read
before anybody gives values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slipway.yard.errors import ApiError

LOOP = "Fn::ForEach::"
PARTS = 3  # the identifier, the collection, and what stands there for each item
LARGEST_DEPTH = 5


def expand(value: Any, depth: int = 0) -> Any:
    """Return the value without loops; raise ApiError for one that is no loop of CloudFormation's."""
    if isinstance(value, list):
        return [expand(item, depth) for item in value]
    if not isinstance(value, Mapping):
        return value
    written: dict[str, Any] = {}
    for name, item in value.items():
        added = _turns(name, item, depth + 1) if name.startswith(LOOP) else {name: expand(item, depth)}
        if twice := sorted(set(added) & set(written)):
            raise _wrong(name, f"makes {', '.join(twice)} a second time")
        written |= added
    return written


def _turns(name: str, loop: Any, depth: int) -> dict[str, Any]:
    if depth > LARGEST_DEPTH:
        raise _wrong(name, f"is nested deeper than {LARGEST_DEPTH} loops")
    if not isinstance(loop, list) or len(loop) != PARTS or not isinstance(loop[2], Mapping):
        raise _wrong(name, "needs a list of an identifier, a collection and a mapping")
    identifier, collection, fragment = loop
    if not isinstance(collection, list) or not all(isinstance(item, str) for item in collection):
        raise _wrong(name, "goes over a list of texts in the template, and over nothing else in the yard")
    written: dict[str, Any] = {}
    for item in collection:
        added = expand(_filled(fragment, str(identifier), item), depth)
        if twice := sorted(set(added) & set(written)):
            raise _wrong(name, f"makes {', '.join(twice)} for two items: put ${{{identifier}}} into the name")
        written |= added
    return written


def _filled(value: Any, identifier: str, item: str) -> Any:
    """Put the item where ${Identifier}, &{Identifier} and a Ref of it stand; & keeps letters and digits."""
    if isinstance(value, str):
        plain = re.sub(r"[^A-Za-z0-9]", "", item)
        return value.replace(f"${{{identifier}}}", item).replace(f"&{{{identifier}}}", plain)
    if isinstance(value, list):
        return [_filled(one, identifier, item) for one in value]
    if not isinstance(value, Mapping):
        return value
    if value == {"Ref": identifier}:
        return item
    return {_filled(name, identifier, item): _filled(one, identifier, item) for name, one in value.items()}


def _wrong(name: str, what: str) -> ApiError:
    return ApiError("ValidationError", f"Transform AWS::LanguageExtensions failed with: {name} {what}")
