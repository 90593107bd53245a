"""The form of the tables of refusals: what AWS refuses although its models allow it.

To add a refusal: a row of RULES in rules.py or reserved.py for one value of a request, or of LAUNCH_RULES
or CHECKS in launches.py for launches of instances by any service.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.yard.errors import ApiError

Parameters = Mapping[str, Any]
Holds = Callable[[Any, str], bool]  # takes a value and a region


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalRule:
    """Refuses values at `path` ([] means each item) for which `holds` is false, in AWS's words."""

    path: str
    holds: Holds
    code: str
    words: str  # {value} is the value
    source: str  # where AWS documents it


def rows(paths: Iterable[str], holds: Holds, code: str, words: str, source: str) -> tuple[RefusalRule, ...]:
    return tuple(RefusalRule(path=path, holds=holds, code=code, words=words, source=source) for path in paths)


def matching(pattern: str) -> Holds:
    compiled = re.compile(pattern, re.DOTALL)
    return lambda value, _region: compiled.fullmatch(str(value)) is not None


def one_of(values: Iterable[object]) -> Holds:
    known = frozenset(values)
    return lambda value, _region: value in known


def refuse(rules: Sequence[RefusalRule], parameters: Parameters, region: str) -> None:
    """Raise ApiError for the first value that a rule refuses."""
    for rule in rules:
        for _, value in values_at(parameters, rule.path):
            if not rule.holds(value, region):
                raise ApiError(rule.code, rule.words.replace("{value}", str(value)))


def values_at(parameters: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) for each value at the path: `disks[].size` is each disk's size."""
    yield from _values(parameters, path.split("."), "")


def _values(value: Any, path: Sequence[str], where: str) -> Iterator[tuple[str, Any]]:
    if not path:
        yield where, value
        return
    name = path[0].removesuffix("[]")
    found = value.get(name)
    if found is None:
        return
    below = f"{where}.{name}" if where else name
    parts = enumerate(found) if path[0].endswith("[]") else [("", found)]
    for number, part in parts:
        yield from _values(part, path[1:], f"{below}[{number}]" if number != "" else below)
