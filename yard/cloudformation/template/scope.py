"""The scope in which an expression is evaluated, and the value that depends on a resource."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from slipway.yard.cloudformation.template.parameters import Lookups
from slipway.yard.cloudformation.template.references import Reference
from slipway.yard.cloudformation.template.template import Template
from slipway.yard.errors import validation_error

NO_VALUE = object()  # the value of AWS::NoValue: its key is removed


@dataclass(frozen=True, slots=True)
class Pending:
    """A value known only once resources exist: its remaining expression, and the references in it."""

    expression: str  # canonical JSON, so that two can be compared
    references: frozenset[Reference]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Everything that an expression may refer to."""

    template: Template
    parameters: Mapping[str, Any]
    pseudo: Mapping[str, Any]
    lookups: Lookups
    resource: Callable[[Reference], Any]  # the value of a reference to a resource, or a Pending
    imported: Callable[[str], str]
    dynamic: Callable[[str], str] = str  # resolves {{resolve:…}}; a preview leaves it as it is


def pending(expression: Any, waits_for: frozenset[Reference]) -> Pending:
    return Pending(json.dumps(expression, sort_keys=True, default=_expression), waits_for)


def waits_for(value: Any) -> frozenset[Reference]:
    """Return the references that any part of the value still waits for."""
    if isinstance(value, Pending):
        return value.references
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return frozenset().union(*(waits_for(item) for item in value))
    return frozenset()


def _expression(value: Any) -> Any:
    assert isinstance(value, Pending), value
    return json.loads(value.expression)


def fail(message: str) -> NoReturn:
    raise validation_error(message)
