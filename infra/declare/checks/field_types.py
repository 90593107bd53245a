"""What a field of a declaration may hold, read from its annotation, for checks and overrides alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from slipway.infra.declare.checks.secret_values import shown
from slipway.infra.declare.checks.values import Check, Objection


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    base: Any  # str, int, bool, an enum, tuple (of texts) or Mapping (of text to text)
    optional: bool
    checks: tuple[Check, ...]


IN_WORDS: Mapping[Any, str] = {
    str: "text in quotes",
    int: "a whole number",
    bool: "True or False",
    tuple: "a tuple of texts",
    Mapping: "a mapping of text to text",
}


_READ: dict[type[Any], Mapping[str, FieldType]] = {}  # by kinds: a check of each value asks for them


def field_types(kind: type[Any]) -> Mapping[str, FieldType]:
    if kind not in _READ:
        hints = get_type_hints(kind, include_extras=True)
        _READ[kind] = {field.name: _read(hints[field.name]) for field in fields(kind)}
    return _READ[kind]


def type_objection(field_type: FieldType, value: object) -> Objection | None:
    """Check the exact type: True and 4.0 are no whole numbers, and nothing is converted."""
    if value is None and field_type.optional:
        return None
    if _has_type(field_type.base, value):
        return None
    hint = "put it in quotes" if field_type.base is str and type(value) in (int, float) else ""
    return Objection(message=f"is {shown(value)}, not {in_words(field_type.base)}", hint=hint)


def in_words(base: Any) -> str:
    if isinstance(base, type) and issubclass(base, StrEnum):
        return " or ".join(f"{base.__name__}.{member.name}" for member in base)
    return IN_WORDS[base]


def _has_type(base: Any, value: object) -> bool:
    if base is tuple:
        return type(value) is tuple and all(type(item) is str for item in value)
    if base is Mapping:
        return isinstance(value, Mapping) and all(
            type(text) is str for pair in value.items() for text in pair
        )
    return type(value) is base


def _read(hint: Any) -> FieldType:
    """Read a type hint: plain, `Annotated[int, check]`, `| None`, `tuple[str, ...]` or a Mapping."""
    checks: tuple[Check, ...] = ()
    choices = get_args(hint) if get_origin(hint) is not Annotated else (hint,)
    optional = NoneType in choices
    if optional:
        hint = next(choice for choice in choices if choice is not NoneType)
    if get_origin(hint) is Annotated:
        hint, *metadata = get_args(hint)
        checks = tuple(metadata)
    return FieldType(base=get_origin(hint) or hint, optional=optional, checks=checks)
