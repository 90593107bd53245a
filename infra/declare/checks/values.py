"""Checks of one value, for the annotations in types.py. Each says what is wrong with a value, or None.

The value has its declared type already; what two values must be to each other stands in rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from slipway.infra.declare.checks.secret_values import shown
from slipway.jobs.words.catalogue.instances import (
    SAGEMAKER,
    device_of,
    find_instance_type,
    instance_type,
    unusable,
)
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.names import (
    CLUSTER_NAME,
    LONGEST_CLUSTER_NAME,
    NAMES_ALLOWED,
    PARTS,
    REGIONS,
    nearest_region,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    message: str
    hint: str = ""


# Any: a check is attached to a field of the type that it takes; mypy cannot follow an annotation's metadata.
Check = Callable[[Any], Objection | None]


def between(low: int, high: int, unit: str = "", why: str = "") -> Check:
    allowed = f"a whole number from {low} to {high}{unit and f' {unit}'}"

    def check(value: int) -> Objection | None:
        return None if low <= value <= high else Objection(message=f"is {value}, not {allowed}", hint=why)

    return check


def one_of(*allowed: int, why: str = "") -> Check:
    def check(value: int) -> Objection | None:
        if value in allowed:
            return None
        nearest = min(allowed, key=lambda choice: abs(choice - value))
        choices = ", ".join(map(str, allowed))
        return Objection(message=f"is {value}; allowed are {choices}{why}", hint=f"the nearest is {nearest}")

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
    if value in REGIONS:
        return None
    return Objection(message=f"is {shown(value)}, which is not an AWS region", hint=nearest_region(value))


def known_instance_type(value: str) -> Objection | None:
    if value.startswith(SAGEMAKER):
        known, own = find_instance_type(value), f"write {shown(value.removeprefix(SAGEMAKER))}"
        runs_there = known is not None and device_of(known) == "cuda"
        hint = "declare a SageMakerCluster, where GPUs run today" if runs_there else own
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
        return Objection(message=message, hint="slipway instances lists types for clusters")
    return None


def fsx_capacity(value: int) -> Objection | None:
    """Check StorageCapacity of PERSISTENT_2 on SSD (FSx API reference, CreateFileSystem)."""
    if value == 1200 or (value > 0 and value % 2400 == 0):
        return None
    above = -(-max(value, 1) // 2400) * 2400
    return Objection(
        message=f"is {value}; FSx for Lustre takes 1200 GiB or a multiple of 2400 GiB", hint=f"use {above}"
    )


def nearest(word: str, known: tuple[str, ...]) -> str:
    """Return a hint: what the user may have meant, or else all that is allowed."""
    close = get_close_matches(word, known, n=1, cutoff=0.55)
    return f"did you mean {close[0]}?" if close else f"allowed are {', '.join(known)}"
