"""Checks of one value, for the annotations in types.py. Each returns what is wrong with a value, or None.

The value has its declared type already; rules.py checks two values together.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from slipway.jobs.words.catalogue.hardware import device_of, unusable
from slipway.jobs.words.catalogue.instances import SAGEMAKER, find_instance_type, instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import (
    CLUSTER_NAME,
    LONGEST_CLUSTER_NAME,
    NAMES_ALLOWED,
    OTHER_PARTITIONS,
    PARTS,
    REGIONS,
    nearest_region,
)

# Values that look like secrets: a declaration is committed and printed, so it may contain none. A new kind of
# secret is one row of PATTERNS. Their issuers publish these forms, for scanners.
PATTERNS: Mapping[str, re.Pattern[str]] = {
    "an AWS access key": re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
    "an AWS secret key": re.compile(r"(?i)aws_?(secret_?access_?key|session_?token)"),
    "a Hugging Face token": re.compile(r"\bhf_[0-9A-Za-z]{20,}"),
    "a GitHub token": re.compile(r"\b(gh[oprsu]_[0-9A-Za-z]{30,}|github_pat_[0-9A-Za-z_]{30,})"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
}

_LONGEST_SHOWN = 80


def secret_kind(text: str) -> str | None:
    return next((kind for kind, pattern in PATTERNS.items() if pattern.search(text)), None)


def shown(value: object) -> str:
    """Return a value as a message prints it."""
    if isinstance(value, int) and abs(value) > sys.maxsize:  # Python writes no more than 4,300 digits
        return f"a whole number of {value.bit_length()} bits"
    return presentable(repr(str(value)) if isinstance(value, str) else repr(value))


def presentable(text: str) -> str:
    """Return the text without secrets and control characters, cut to a readable length."""
    kind = secret_kind(text)
    if kind:
        return f"(hidden: {kind})"
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({len(text)} characters)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    message: str
    hint: str = ""


# Any: a check is attached to a field of the type that it takes; mypy cannot follow an annotation's metadata.
Check = Callable[[Any], Objection | None]


def between(low: int, high: int, unit: str = "", why: str = "") -> Check:
    allowed = f"a whole number from {low} to {high}{unit and f' {unit}'}"

    def check(value: int) -> Objection | None:
        return (
            None if low <= value <= high else Objection(message=f"is {shown(value)}, not {allowed}", hint=why)
        )

    return check


def one_of(*allowed: int, why: str = "") -> Check:
    def check(value: int) -> Objection | None:
        if value in allowed:
            return None
        nearest = min(allowed, key=lambda choice: abs(choice - value))
        choices = ", ".join(map(str, allowed))
        return Objection(
            message=f"is {shown(value)}; allowed are {choices}{why}", hint=f"the nearest is {nearest}"
        )

    return check


def all_among(*allowed: str) -> Check:
    def check(value: tuple[str, ...]) -> Objection | None:
        stranger = next((name for name in value if name not in allowed), None)
        if stranger is None:
            return None
        return Objection(message=f"has {shown(stranger)}", hint=f"allowed are {', '.join(allowed)}")

    return check


def matching(pattern: str, allowed: str, *, longest: int) -> Check:
    compiled = re.compile(pattern)

    def check(value: str) -> Objection | None:
        if len(value) > longest:
            return Objection(message=f"is {shown(value)}, longer than {longest} characters")
        return None if compiled.fullmatch(value) else Objection(message=f"is {shown(value)}, not {allowed}")

    return check


_NAME = matching(CLUSTER_NAME, NAMES_ALLOWED, longest=LONGEST_CLUSTER_NAME)


def cluster_name(value: str) -> Objection | None:
    first, _, last = value.rpartition("-")
    if first and last in PARTS:
        message = f"is {shown(value)}, which may be the name of another cluster's {last} stack"
        return Objection(message=message, hint=f"do not end it in {', '.join(sorted(PARTS))}")
    return _NAME(value)


def known_region(value: str) -> Objection | None:
    if value.startswith(OTHER_PARTITIONS) and value in REGIONS:
        message = f"is {value}, which is not in AWS's partition `aws`"
        return Objection(message=message, hint="our policies name that partition; use a region of it")
    if value in REGIONS:
        return None
    return Objection(message=f"is {shown(value)}, which is not an AWS region", hint=nearest_region(value))


def known_instance_type(value: str) -> Objection | None:
    if value.startswith(SAGEMAKER):
        known, own = find_instance_type(value), f"write {shown(value.removeprefix(SAGEMAKER))}"
        runs_there = known is not None and device_of(known) == "cuda"
        hint = f"{own}, or declare a SageMakerCluster" if runs_there else own
        return Objection(message=f"is {shown(value)}, SageMaker's name of a type", hint=hint)
    return _in_catalogue(value)


def known_training_type(value: str) -> Objection | None:
    if not value.startswith(SAGEMAKER):
        message = f"is {shown(value)}, but SageMaker's types begin with {SAGEMAKER}"
        return Objection(message=message, hint=f"write {shown(f'{SAGEMAKER}{value}')}")
    return _in_catalogue(value)


def _in_catalogue(value: str) -> Objection | None:
    try:
        known = instance_type(value)
    except SlipwayError as error:
        return Objection(
            message=f"is {shown(value)}, which is not in the catalogue of instance types", hint=error.hint
        )
    if known.accelerator and unusable(known):
        message = f"is {shown(value)}, on whose {known.accelerator.name} nothing of ours trains"
        return Objection(message=message, hint="slipway instance list lists types for clusters")
    return None


def fsx_capacity(value: int) -> Objection | None:
    """Check StorageCapacity of PERSISTENT_2 on SSD (FSx API reference, CreateFileSystem)."""
    if value == 1200 or (value > 0 and value % 2400 == 0):
        return None
    above = -(-max(value, 1) // 2400) * 2400
    return Objection(
        message=f"is {shown(value)}; FSx for Lustre takes 1200 GiB or a multiple of 2400 GiB",
        hint=f"use {shown(above)}",
    )


def nearest(word: str, known: tuple[str, ...]) -> str:
    """Return a hint: what the user may have meant, or else all that is allowed."""
    close = get_close_matches(word, known, n=1, cutoff=0.55)
    return f"did you mean {close[0]}?" if close else f"allowed are {', '.join(known)}"


# The type of a declaration's field, read from its annotation, for checks and overrides alike.


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
