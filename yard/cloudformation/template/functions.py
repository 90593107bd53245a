"""The intrinsic functions that take values and give a value.

To add one: a function here and its line in FUNCTIONS.
"""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Callable
from typing import Any

from slipway.yard.cloudformation.template.scope import Scope, fail

MAX_CIDR_BLOCKS = 256


def to_text(value: Any) -> str:
    """A scalar as CloudFormation writes it into a string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"{json.dumps(value)} is no string")


def _join(argument: Any, scope: Scope) -> str:
    delimiter, items = argument
    if isinstance(items, str):
        raise TypeError("the second argument is a list of strings")
    return scope.dynamic(str(delimiter).join(to_text(item) for item in items))


def _split(argument: Any, scope: Scope) -> list[str]:
    delimiter, text = argument
    if not isinstance(text, str):
        raise TypeError("the second argument is a string")
    return text.split(delimiter)


def _base64(argument: Any, scope: Scope) -> str:
    return base64.b64encode(to_text(argument).encode()).decode()


def _zones(argument: Any, scope: Scope) -> list[str]:
    return list(scope.lookups.availability_zones(argument or scope.pseudo["AWS::Region"]))


def _find_in_map(argument: Any, scope: Scope) -> Any:
    name, first, second, *rest = argument
    try:
        return scope.template.section("Mappings")[name][to_text(first)][to_text(second)]
    except KeyError:
        # Templates that AWS publishes use it without the language extensions, and cfn-lint takes it so.
        if rest and "DefaultValue" in rest[0]:
            return rest[0]["DefaultValue"]
        fail(f"Template error: Unable to get mapping for {name}::{first}::{second}")


def _import(argument: Any, scope: Scope) -> str:
    return scope.imported(to_text(argument))


def _stack_output(argument: Any, scope: Scope) -> str:
    """An output of another stack, read as it is now: what `cdk init` makes of references between stacks."""
    unknown = argument.keys() - {"StackName", "OutputName", "Region", "RoleArn"}
    if unknown:
        raise ValueError(f"it has no {', '.join(sorted(unknown))}")
    stack, output = str(argument["StackName"]), str(argument["OutputName"])
    try:
        return scope.lookups.stack_output(stack, output, argument.get("Region"))
    except KeyError:
        fail(f"Template error: stack {stack} has no output {output}: deploy it first")


def _cidr(argument: Any, scope: Scope) -> list[str]:
    block, count, *rest = argument
    network = ipaddress.ip_network(block)
    host_bits = int(rest[0]) if rest else 8
    wanted = int(count)
    if not 1 <= wanted <= MAX_CIDR_BLOCKS:
        raise ValueError(f"count is {wanted}, but has to be 1 to {MAX_CIDR_BLOCKS}")
    prefix = network.max_prefixlen - host_bits
    if wanted > 2 ** max(prefix - network.prefixlen, 0) or prefix < network.prefixlen:
        raise ValueError(f"{block} does not hold {wanted} blocks of {host_bits} host bits")
    subnets = network.subnets(new_prefix=prefix)
    return [str(next(subnets)) for _ in range(wanted)]


def _to_json(argument: Any, scope: Scope) -> str:
    return json.dumps(argument, separators=(",", ":"))


def _length(argument: Any, scope: Scope) -> int:
    if not isinstance(argument, list):
        raise TypeError("it takes a list")
    return len(argument)


FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Fn::Join": _join,
    "Fn::Split": _split,
    "Fn::Base64": _base64,
    "Fn::GetAZs": _zones,
    "Fn::GetStackOutput": _stack_output,
    "Fn::FindInMap": _find_in_map,
    "Fn::ImportValue": _import,
    "Fn::Cidr": _cidr,
    "Fn::ToJsonString": _to_json,
    "Fn::Length": _length,
}
EXTENDED = ("Fn::ToJsonString", "Fn::Length")  # only with the language extensions
