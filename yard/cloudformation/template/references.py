"""Finds which resources an expression refers to, and orders resources so that those are made first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from slipway.yard.errors import validation_error

PSEUDO_PARAMETERS = frozenset(
    f"AWS::{name}"
    for name in [
        "AccountId",
        "NotificationARNs",
        "NoValue",
        "Partition",
        "Region",
        "StackId",
        "StackName",
        "URLSuffix",
    ]
)
SUB_VARIABLE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference to a resource or parameter: `Fn::GetAtt` has an attribute, `Ref` has none."""

    logical_id: str
    attribute: str | None = None


def in_expression(value: Any) -> frozenset[Reference]:
    """Return every reference in the expression: to resources, parameters and pseudo parameters."""
    return frozenset(_walk(value))


def get_att(argument: Any) -> tuple[str, Any]:
    """Return the resource and attribute of a GetAtt, in its dotted form or as a list."""
    parts = argument.split(".", 1) if isinstance(argument, str) else argument
    if not isinstance(parts, list) or len(parts) < 2 or not _are_names(parts):
        raise validation_error(
            "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name"
            " and the resource attribute"
        )
    return parts[0], parts[1] if len(parts) == 2 else ".".join(parts[1:])


def _are_names(parts: list[Any]) -> bool:
    """Return True if the parts name a resource and an attribute; only the attribute may be a function."""
    return all(isinstance(part, str) for part in (parts[:1] if len(parts) == 2 else parts))


def sub_parts(argument: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the text and the variables of a Sub."""
    parts = [argument, {}] if isinstance(argument, str) else argument
    text, variables = parts if isinstance(parts, list) and len(parts) == 2 else (None, None)
    if not isinstance(text, str) or not isinstance(variables, dict):
        raise validation_error(
            "Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments."
            " Specify a string as first argument, and an optional second argument to specify a mapping"
            " of values to replace in the string"
        )
    return text, variables


def of_variable(name: str) -> Reference:
    """Return the reference that ${name} in a Sub is."""
    logical_id, _, attribute = name.strip().partition(".")
    return Reference(logical_id=logical_id, attribute=attribute or None)


def _walk(value: Any) -> Iterator[Reference]:
    if isinstance(value, list):
        for item in value:
            yield from _walk(item)
    elif not isinstance(value, dict):
        return
    elif len(value) == 1 and isinstance(value.get("Ref"), str):
        yield Reference(logical_id=value["Ref"])
    elif len(value) == 1 and "Fn::GetAtt" in value:
        logical_id, attribute = get_att(value["Fn::GetAtt"])
        yield Reference(logical_id=logical_id, attribute=attribute if isinstance(attribute, str) else "")
        yield from _walk(attribute)
    elif len(value) == 1 and "Fn::Sub" in value:
        text, variables = sub_parts(value["Fn::Sub"])
        names = [name for name in SUB_VARIABLE.findall(text) if not name.startswith("!")]
        yield from (of_variable(name) for name in names if name.strip() not in variables)
        yield from _walk(list(variables.values()))
    else:
        for item in value.values():
            yield from _walk(item)


def check(body: Mapping[str, Any], resources: Iterable[str]) -> None:
    """Raise ValidationError for a reference to something that the template does not declare."""
    parameters = set(body.get("Parameters") or {}) | PSEUDO_PARAMETERS
    known = set(resources)
    for block in ("Conditions", "Resources", "Outputs"):
        parts = [
            {key: item for key, item in value.items() if key not in ("DependsOn", "Type", "Description")}
            if isinstance(value, dict) and len(value) > 1
            else value
            for value in (body.get(block) or {}).values()
        ]
        allowed = parameters if block == "Conditions" else parameters | known
        _check_block(block, in_expression(parts), allowed, known)
    for logical_id, resource in body["Resources"].items():
        named = resource.get("DependsOn") or []
        wanted = {named} if isinstance(named, str) else set(named)
        if unknown := sorted(wanted - known):
            _refuse_unresolved(unknown, "Resources")
        if logical_id in wanted:
            raise validation_error(f"Circular dependency between resources: [{logical_id}]")
    _check_conditions(body)


def _check_block(block: str, found: Iterable[Reference], allowed: set[str], resources: set[str]) -> None:
    attributes = sorted(
        reference.logical_id
        for reference in found
        if reference.attribute is not None and reference.logical_id not in resources
    )
    if attributes:
        raise validation_error(
            f"Template error: instance of Fn::GetAtt references undefined resource {attributes[0]}"
        )
    if unknown := sorted({reference.logical_id for reference in found} - allowed):
        _refuse_unresolved(unknown, block)


def _refuse_unresolved(names: Iterable[str], block: str) -> None:
    raise validation_error(
        f"Template format error: Unresolved resource dependencies [{', '.join(names)}] in the {block} block"
        " of the template"
    )


def _check_conditions(body: Mapping[str, Any]) -> None:
    declared = set(body.get("Conditions") or {})
    for block in ("Resources", "Outputs"):
        for value in (body.get(block) or {}).values():
            name = value.get("Condition") if isinstance(value, dict) else None
            if isinstance(name, str) and name not in declared:
                raise validation_error(
                    f"Template format error: Unresolved condition dependency {name} in the {block} block of "
                    "the template"
                )


def order(dependencies: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the names in declared order, but each after its dependencies; ignore unknown dependencies."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name, wanted in dependencies.items():
        sorter.add(name, *(other for other in wanted if other in dependencies))
    try:
        sorter.prepare()
    except CycleError as error:
        names = ", ".join(sorted(set(error.args[1])))
        raise validation_error(f"Circular dependency between resources: [{names}]") from error
    # Those that are ready together come as declared, so that every run has the same order.
    place = {name: index for index, name in enumerate(dependencies)}
    ordered: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=place.__getitem__)
        ordered += ready
        sorter.done(*ready)
    return tuple(ordered)
