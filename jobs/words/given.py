"""Checks values against type annotations, which Python itself does not.

`checked` is for a function that notebooks call, `wrong_record` for a dataclass that checks itself, and
`wrong_fields` for a record that was read.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import lru_cache, wraps
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from slipway.jobs.words.errors import InvalidConfig, Problem
from slipway.jobs.words.text import printable

P = ParamSpec("P")
T = TypeVar("T")
Check = Callable[[object], bool]

_SHOWN = 60
_REST = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)  # further arguments: the function reads them itself
_TEXTS = (str, bytes, bytearray)  # sequences, too, but nobody means their letters
# Types that match exactly: True is no number, and 2.0 no whole one.
_PLAIN: Mapping[Any, tuple[Check, str]] = {
    str: (lambda value: isinstance(value, str), "a text"),
    int: (lambda value: type(value) is int, "a whole number"),
    float: (lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number"),
    bool: (lambda value: type(value) is bool, "true or false"),
    NoneType: (lambda value: value is None, "null"),
}


class WrongArgument(InvalidConfig):
    """Names every argument whose type is not the annotated one."""


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse arguments of other types than the function's annotations, as the command line does."""

    known = signature(function)
    rest = {each.name for each in known.parameters.values() if each.kind in _REST}

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        given = known.bind(*arguments, **named).arguments
        hints = {name: hint for name, hint in _hints(function).items() if name not in rest}
        if problems := list(wrong_values(hints, given)):
            raise WrongArgument(problems)
        return function(*arguments, **named)

    return call


def wrong_record(record: object) -> Iterator[Problem]:
    """Yield a problem for each field of a dataclass that has the wrong type."""
    kind: Any = type(record)
    for name, hint, check in _field_checks(kind):
        value = getattr(record, name)
        if not check(value):
            yield from _wrong(name, value, hint)


def wrong_values(hints: Mapping[str, Any], given: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem for each given value of the wrong type; a name without a type may have any."""
    for name, value in given.items():
        if name in hints and not _check(hints[name])(value):
            yield from _wrong(name, value, hints[name])


def wrong_fields(record_type: Any, record: Mapping[str, object]) -> list[str]:
    """Describe each missing or mistyped field of a record that another version wrote as JSON."""
    hints = _hints(record_type)
    names = [field.name for field in fields(record_type)]
    missing = [f"lacks {name}" for name in names if name not in record]
    return missing + [
        f"has {name} = {record[name]!r}, not {_in_words(hints[name])}"
        for name in names
        if name in record and not _check(hints[name])(record[name])
    ]


def shown(value: object) -> str:
    """Write any value so that it is safe to print in one short line."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more than 4,300 digits
        text = f"a value of type {type(value).__name__} too long to be written"
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


@lru_cache(maxsize=256)
def _hints(typed: Any) -> Mapping[str, Any]:
    return get_type_hints(typed)


@lru_cache(maxsize=256)
def _field_checks(kind: Any) -> tuple[tuple[str, Any, Check], ...]:
    return tuple((name, hint, _check(hint)) for name, hint in _hints(kind).items())


@lru_cache(maxsize=256)
def _check(hint: Any) -> Check:
    if hint in _PLAIN:
        return _PLAIN[hint][0]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        ways = [_check(each) for each in inner]
        return lambda value: any(way(value) for way in ways)
    if origin in (tuple, abc.Sequence):
        item = _check(inner[0])
        return lambda value: (
            isinstance(value, origin) and not isinstance(value, _TEXTS) and all(map(item, value))
        )
    if origin is abc.Mapping:
        key, item = map(_check, inner)
        return lambda value: (
            isinstance(value, abc.Mapping) and all(map(key, value)) and all(map(item, value.values()))
        )
    kind = origin or hint
    return lambda value: not isinstance(kind, type) or isinstance(value, kind)


def _wrong(where: str, value: object, hint: Any) -> Iterator[Problem]:
    """Yield the problem; if one item of a mapping or sequence is wrong, name that item."""
    for way in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        items = _items(value, way)
        if items is not None:
            for place, item, inner in items:
                if not _check(inner)(item):
                    yield from _wrong(f"{where}[{shown(place)}]", item, inner)
            return
    yield Problem(where=where, message=f"is {shown(value)}; allowed is {_in_words(hint)}")


def _items(value: object, hint: Any) -> list[tuple[object, object, Any]] | None:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is abc.Mapping and isinstance(value, abc.Mapping) and all(map(_check(inner[0]), value)):
        return [(key, item, inner[1]) for key, item in value.items()]
    if origin in (tuple, abc.Sequence) and isinstance(value, origin) and not isinstance(value, _TEXTS):
        return [(place, item, inner[0]) for place, item in enumerate(value)]
    return None


def _in_words(hint: Any) -> str:
    if hint in _PLAIN:
        return _PLAIN[hint][1]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_in_words, inner))
    if origin is abc.Mapping:
        return f"a mapping from {_in_words(inner[0])} to {_in_words(inner[1])}"
    if origin in (tuple, abc.Sequence):
        return f"a {'tuple' if origin is tuple else 'list'}, each item {_in_words(inner[0])}"
    return getattr(origin or hint, "__name__", str(hint))
