"""How `--set key=value` is read, whatever the recipe: strictly, all mistakes told at once. No torch here.

A recipe's config is a frozen dataclass. Its fields that are annotated with a kind are the settings.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from inspect import get_annotations
from typing import Annotated, Any, TypeVar, get_type_hints

from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

Values = dict[str, Any]
Show = Callable[[str], str]  # a value in a message, without what must not be seen
C = TypeVar("C")


class InvalidSettings(Refusal):
    """The settings are wrong: holds every mistake, found before a device is touched."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        several = f"{len(mistakes)} settings are wrong:\n  " + "\n  ".join(mistakes)
        super().__init__(several if len(mistakes) > 1 else mistakes[0])


@lru_cache
def kinds_of(config: type) -> Mapping[str, ValueKind]:
    """Return the settings of a config, its own before those that it inherits."""
    hints = get_type_hints(config, include_extras=True)
    names = dict.fromkeys(name for owner in config.__mro__ for name in get_annotations(owner))
    return {name: kind for name in names for kind in getattr(hints[name], "__metadata__", ())}


def defaults_of(config: type) -> Values:
    """Return what each field is where nothing is said of it; None where it has no default."""
    values: Values = {}
    for field in fields(config):
        if field.default_factory is not MISSING:
            values[field.name] = field.default_factory()
        else:
            values[field.name] = None if field.default is MISSING else field.default
    return values


def read_settings(
    config: type,
    arguments: Sequence[str],
    defaults: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda given: {},
    show: Show = shown,
) -> tuple[dict[str, str], Values, list[str]]:
    """Return the texts that are given, a value for every field, and every mistake.

    `defaults` are texts for what is given; a value that could not be read is None.
    """
    kinds = kinds_of(config)
    given, mistakes = split_arguments(arguments, kinds, show)
    values, more = read_values({**defaults(given), **given}, kinds, show)
    return given, {**defaults_of(config), **values}, [*mistakes, *more]


def made(config: Callable[..., C], values: Values, mistakes: Sequence[str]) -> C:
    """Make the config; raise InvalidSettings with every mistake."""
    if mistakes:
        raise InvalidSettings(mistakes)
    return config(**values)


def split_arguments(
    arguments: Sequence[str], kinds: Mapping[str, ValueKind], show: Show = shown
) -> tuple[dict[str, str], list[str]]:
    """Return the text given for each setting, and what is wrong with the rest."""
    given: dict[str, str] = {}
    mistakes = []
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            mistakes.append(f"{show(argument)} is not key=value, such as seed=1")
        elif key not in kinds:
            close = difflib.get_close_matches(key, kinds, n=1)
            told = f"did you mean {close[0]}?" if close else f"settings are {', '.join(kinds)}"
            mistakes.append(f"{shown(key)} is not a setting; {told}")
        elif key in given:
            mistakes.append(f"{key} is set twice, to {show(given[key])} and {show(text)}; set it once")
        else:
            given[key] = text
    return given, mistakes


def read_values(
    texts: Mapping[str, str], kinds: Mapping[str, ValueKind], show: Show = shown
) -> tuple[Values, list[str]]:
    """Return a value for every text, None for one that is wrong, and what is wrong."""
    values: Values = {}
    mistakes = []
    for key, text in texts.items():
        values[key] = kinds[key].read(text)
        if values[key] is None:
            mistakes.append(f"{key} is {show(text)}, and must be {kinds[key].wanted}")
    return values, mistakes


# The kinds of values a setting may have: each reads text strictly, or says what it wanted.
# [0-9] and not \d: that takes the digits of every script.
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,20})?([eE]-?[0-9]{1,2})?", re.ASCII)
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_PATH = rf"{_NAME}(/{_NAME}){{0,8}}"


@dataclass(frozen=True, slots=True)
class ValueKind:
    """Read one kind of value, and say in words what is wanted."""

    wanted: str
    read: Callable[[str], object | None]  # None: the text is not of this kind


def whole(low: int, high: int) -> ValueKind:
    def read(text: str) -> int | None:
        return int(text) if _WHOLE.fullmatch(text) and low <= int(text) <= high else None

    return ValueKind(f"a whole number from {low} to {high}", read)


def number(low: float, high: float) -> ValueKind:
    def read(text: str) -> float | None:
        return float(text) if _DECIMAL.fullmatch(text) and low <= float(text) <= high else None

    return ValueKind(f"a number from {low:g} to {high:g}, such as 0.003 or 3e-3", read)


def choice(allowed: tuple[str, ...]) -> ValueKind:
    return ValueKind(" or ".join(allowed), lambda text: text if text in allowed else None)


def matching(pattern: str, wanted: str) -> ValueKind:
    """Return the kind of texts that match, as they are."""
    compiled = re.compile(pattern, re.ASCII)
    return ValueKind(wanted, lambda text: text if compiled.fullmatch(text) else None)


# The least is slower than any training: at 0, or near it, one trains for hours and learns nothing.
RATE = number(1e-9, 1.0)
LearningRate = Annotated[float, RATE]
Share = Annotated[float, number(0.0, 1.0)]


def _step_range(text: str) -> str | None:
    first, _, last = text.partition(":")
    if not (_WHOLE.fullmatch(first) and _WHOLE.fullmatch(last)):
        return None
    return text if 1 <= int(first) <= int(last) else None


STEP_RANGE = ValueKind("a first and a last step, such as 10:15", _step_range)  # counted from 1
RELATIVE_PATH = matching(_PATH, "a name or path below its root, of letters, digits and . _ - /")
FieldName = Annotated[str, matching(_PATH, "the name of a field, of letters, digits and . _ -")]
PathBelow = Annotated[str, RELATIVE_PATH]
MaybePath = Annotated[str | None, RELATIVE_PATH]
MicroBatch = Annotated[int, whole(1, 65_536)]
Count = Annotated[int, whole(1, 1_000_000)]
Device = Annotated[str, choice(("auto", "hpu", "cuda", "cpu"))]
Compiling = Annotated[str, choice(("auto", "yes", "no"))]  # auto: where the device gains by it
Seed = Annotated[int, whole(0, 2**31 - 1)]
