"""Custom resources whose function the yard cannot run are refused before anything of their stack is made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from slipway.yard.cloudformation.resources.custom import function_backed, sdk_calls
from slipway.yard.cloudformation.resources.custom.function_backed import LAMBDA, no_function
from slipway.yard.cloudformation.resources.registry import CUSTOM, CUSTOM_RESOURCE, TYPES
from slipway.yard.cloudformation.template.blueprint import Blueprint, Planned
from slipway.yard.cloudformation.template.scope import Pending
from slipway.yard.errors import ApiError
from slipway.yard.services.functions.plan import refusal

FUNCTION = "AWS::Lambda::Function"


def refuse_functions(blueprint: Blueprint) -> None:
    """Raise ApiError that names each of them; what is not known yet is refused when it is made."""
    if found := list(_refusals(blueprint.resources)):
        raise ApiError("ValidationError", "Template format error: " + "\n".join(found))


def _refusals(resources: Mapping[str, Planned]) -> Iterator[str]:
    for name, planned in resources.items():
        kind = planned.declared.type
        if (kind in TYPES and kind != CUSTOM_RESOURCE) or not kind.startswith((CUSTOM, CUSTOM_RESOURCE)):
            continue
        token = planned.properties.get("ServiceToken")
        if isinstance(token, str) and LAMBDA not in token:
            yield no_function(name, token)
        elif sdk_calls.is_one(planned.properties):
            continue
        elif why := _why_not(_function(token, resources)):
            yield f"the yard cannot make {name}, {kind}: {why}"


def _why_not(function: Planned | None) -> str:
    runtime = function.properties.get("Runtime", "") if function else None
    if function is None or not isinstance(runtime, str):
        return ""
    environment = function.properties.get("Environment")
    if isinstance(environment, Mapping) and function_backed.is_one(environment.get("Variables")):
        return ""
    why = refusal(runtime, bool(function.properties.get("Layers")))
    return f"it cannot run {function.declared.logical_id}: {why}" if why else ""


def _function(token: Any, resources: Mapping[str, Planned]) -> Planned | None:
    """Return the function of this template that the token is the ARN of."""
    if not isinstance(token, Pending) or "Fn::GetAtt" not in json.loads(token.expression):
        return None
    (reference,) = token.references
    found = resources[reference.logical_id]
    return found if found.declared.type == FUNCTION else None
