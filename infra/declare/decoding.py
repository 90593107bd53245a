"""A value of the context (text from `-c`, JSON from cdk.json) as the type of its setting: never a guess."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from slipway.infra.declare.checks.field_types import FieldType
from slipway.infra.declare.checks.secret_values import presentable, shown
from slipway.infra.declare.checks.values import nearest

_LONGEST_INTEGER = 15


class WrongValue(Exception):
    """Says what is wrong with a value; the caller knows where it stands."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def decode(field_type: FieldType, value: object) -> object:
    if field_type.optional and value in (None, "none"):
        return None
    if isinstance(field_type.base, type) and issubclass(field_type.base, StrEnum):
        return _enum(field_type.base, value)
    return _DECODERS[field_type.base](value)


def decode_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise WrongValue(f"is {_in_json(value)}, not text", "put it in quotes")


def _integer(value: object) -> int:
    if type(value) is int:
        return value
    if not isinstance(value, str):
        raise WrongValue(f"is {_in_json(value)}, not a whole number")
    if re.fullmatch(r"-?0[0-9]+", value):
        raise WrongValue(f"is {shown(value)}, a number with leading zeros", f"write {int(value[:99])}")
    if not re.fullmatch(rf"-?[0-9]{{1,{_LONGEST_INTEGER}}}", value):
        raise WrongValue(f"is {shown(value)}, not a whole number", "write it in digits only, such as 4")
    return int(value)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise WrongValue(f"is {_in_json(value)}; allowed are true and false")


def _enum(base: type[StrEnum], value: object) -> StrEnum:
    if isinstance(value, str) and value in list(base):
        return base(value)
    hint = nearest(str(value), tuple(base))
    allowed = ", ".join(base)
    raise WrongValue(f"is {_in_json(value)}; allowed are {allowed}", hint if hint.startswith("did") else "")


def _texts(value: object) -> tuple[str, ...]:
    """Decode texts from a list in JSON, or from one text with commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",")) if value.strip() else ()
    if isinstance(value, list):
        return tuple(decode_text(item) for item in value)
    raise WrongValue(f"is {_in_json(value)}, not texts separated by commas")


def _mapping(value: object) -> Mapping[str, str]:
    """Decode an object in JSON, given as JSON or as text."""
    if isinstance(value, str):
        value = _from_json(value)
    if not isinstance(value, Mapping):
        raise WrongValue(f"is {_in_json(value)}, not an object in JSON", "or set one: dl1.tags.owner=me")
    return {decode_text(key): decode_text(each) for key, each in value.items()}


def _from_json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except (json.JSONDecodeError, RecursionError):
        raise WrongValue(f"is {shown(text)}, not an object in JSON", 'write {"owner": "me"}') from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise WrongValue(f"has {shown(key)} twice", "keep one of them")
        found[key] = value
    return found


def _in_json(value: object) -> str:
    """Return the value as the user wrote it in cdk.json: true, not True."""
    return shown(value) if isinstance(value, str) else presentable(json.dumps(value, default=str))


_DECODERS: Mapping[Any, Callable[[object], object]] = {
    str: decode_text,
    int: _integer,
    bool: _boolean,
    tuple: _texts,
    Mapping: _mapping,
}
