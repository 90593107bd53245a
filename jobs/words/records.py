"""Records that one part of Slipway writes as JSON and another reads: what is wrong with one, by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import NoneType
from typing import Any, get_args, get_type_hints

from slipway.jobs.words.errors import SlipwayError

_IN_WORDS = {str: "a text", int: "a whole number", bool: "true or false", NoneType: "null"}


class NewerRecord(SlipwayError):
    """A newer Slipway wrote this record, so this one must neither judge nor overwrite it."""


def refuse_newer(schema: object, known: int, where: str) -> None:
    """Call it before the record's fields are judged: a later schema may have others."""
    if type(schema) is int and schema > known:
        raise NewerRecord(
            f"{where} has schema {schema}, but this Slipway reads {known}",
            hint="a newer Slipway wrote it: use that version or a newer one",
        )


def wrong_fields(record_type: type[Any], record: Mapping[str, object]) -> list[str]:
    """Describe each missing or mistyped field; fields hold texts, whole numbers, truths or null."""
    expected = get_type_hints(record_type)
    names = [field.name for field in fields(record_type)]
    missing = [f"lacks {name}" for name in names if name not in record]
    return missing + [
        f"has {name} = {record[name]!r}, not {_in_words(expected[name])}"
        for name in names
        if name in record and type(record[name]) not in _types(expected[name])
    ]


def _types(expected: Any) -> tuple[Any, ...]:
    return get_args(expected) or (expected,)


def _in_words(expected: Any) -> str:
    return " or ".join(_IN_WORDS[each] for each in _types(expected))
