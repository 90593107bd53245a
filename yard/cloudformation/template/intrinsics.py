"""Evaluates a template's expressions, both before and after its resources exist.

To add a function that has to see its arguments unevaluated: one function here and its line in LAZY.
"""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Callable, Iterator
from typing import Any

from slipway.yard.cloudformation.template import references
from slipway.yard.cloudformation.template.references import SUB_VARIABLE, Reference
from slipway.yard.cloudformation.template.scope import NO_VALUE, Scope, fail, pending, waits_for
from slipway.yard.cloudformation.template.template import LANGUAGE_EXTENSIONS
from slipway.yard.errors import as_text

# The intrinsic functions that take evaluated arguments.
# To add one: a function here and its line in FUNCTIONS.
MAX_CIDR_BLOCKS = 256


def to_text(value: Any) -> str:
    """Return a scalar as CloudFormation writes it into a string."""
    if isinstance(text := as_text(value), str):
        return text
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


def _zones(argument: Any, scope: Scope) -> list[str]:
    return list(scope.lookups.availability_zones(argument or scope.pseudo["AWS::Region"]))


def _find_in_map(argument: Any, scope: Scope) -> Any:
    name, first, second, *rest = argument
    try:
        return scope.template.section("Mappings")[name][to_text(first)][to_text(second)]
    except KeyError:
        # AWS's published templates use DefaultValue without the language extensions, and cfn-lint allows it.
        if rest and "DefaultValue" in rest[0]:
            return rest[0]["DefaultValue"]
        fail(f"Template error: Unable to get mapping for {name}::{first}::{second}")


def _stack_output(argument: Any, scope: Scope) -> str:
    """Return an output of another stack as it is now; the CDK writes references between stacks like this."""
    if unknown := argument.keys() - {"StackName", "OutputName", "Region", "RoleArn"}:
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


def _length(argument: Any, scope: Scope) -> int:
    if not isinstance(argument, list):
        raise TypeError("it takes a list")
    return len(argument)


FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Fn::Join": _join,
    "Fn::Split": _split,
    "Fn::Base64": lambda argument, scope: base64.b64encode(to_text(argument).encode()).decode(),
    "Fn::GetAZs": _zones,
    "Fn::GetStackOutput": _stack_output,
    "Fn::FindInMap": _find_in_map,
    "Fn::ImportValue": lambda argument, scope: scope.imported(to_text(argument)),
    "Fn::Cidr": _cidr,
    "Fn::ToJsonString": lambda argument, scope: json.dumps(argument, separators=(",", ":")),
    "Fn::Length": _length,
}
EXTENDED = ("Fn::ToJsonString", "Fn::Length")  # only with the language extensions


def evaluate(value: Any, scope: Scope) -> Any:
    """Return the value with all its functions evaluated."""
    if isinstance(value, list):
        return [item for item in (evaluate(item, scope) for item in value) if item is not NO_VALUE]
    if isinstance(value, str):
        return scope.dynamic(value)
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        name, argument = next(iter(value.items()))
        if name in LAZY:
            return LAZY[name](argument, scope)
        if name in FUNCTIONS:
            return _call(name, argument, scope)
        if isinstance(name, str) and name.startswith("Fn::"):
            fail(f"Template error: the yard does not know {name}; it knows {', '.join([*LAZY, *FUNCTIONS])}")
    evaluated = {key: evaluate(item, scope) for key, item in value.items()}
    return {key: item for key, item in evaluated.items() if item is not NO_VALUE}


def _call(name: str, argument: Any, scope: Scope) -> Any:
    evaluated = evaluate(argument, scope)
    if missing := waits_for(evaluated):
        return pending({name: evaluated}, missing)
    if name in EXTENDED and LANGUAGE_EXTENSIONS not in scope.template.transforms:
        fail(f"Template error: {name} needs Transform: {LANGUAGE_EXTENSIONS} in the template")
    try:
        return FUNCTIONS[name](evaluated, scope)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        fail(f"Template error: {name} cannot take {json.dumps(evaluated)}: {error}")


def condition(name: str, scope: Scope, seen: tuple[str, ...] = ()) -> bool:
    """Return True if the template's condition holds."""
    conditions = scope.template.section("Conditions")
    if name not in conditions:
        fail(
            f"Template error: unresolved condition dependency {name} in the Conditions block of the template"
        )
    if name in seen:
        fail(f"Circular dependency between conditions: [{', '.join(seen)}]")
    return _holds(conditions[name], scope, (*seen, name))


def _holds(value: Any, scope: Scope, seen: tuple[str, ...]) -> bool:
    if isinstance(value, dict) and len(value) == 1:
        name, argument = next(iter(value.items()))
        if name == "Condition":
            return condition(argument, scope, seen)
        if name in LOGIC:
            return LOGIC[name](_holds(item, scope, seen) for item in argument)
        if name == "Fn::Equals":
            left, right = evaluate(argument, scope)
            if isinstance(left, dict | list) or isinstance(right, dict | list):
                return bool(left == right)
            return to_text(left) == to_text(right)
    if not isinstance(value, bool | str) or str(value).lower() not in ("true", "false"):
        fail(
            f"Template error: {json.dumps(value)} is no condition: use Fn::And, Or, Not, Equals or Condition"
        )
    return str(value).lower() == "true"


LOGIC: dict[str, Callable[[Iterator[bool]], bool]] = {
    "Fn::And": all,
    "Fn::Or": any,
    "Fn::Not": lambda operands: not next(operands),
}


def _referenced(reference: Reference, scope: Scope) -> Any:
    name = reference.logical_id
    if reference.attribute is None:
        if name == "AWS::NoValue":
            return NO_VALUE
        for values in (scope.pseudo, scope.parameters):
            if name in values:
                return values[name]
    return scope.resource(reference)


def _get_att(argument: Any, scope: Scope) -> Any:
    logical_id, attribute = references.get_att(argument)
    return _referenced(Reference(logical_id=logical_id, attribute=evaluate(attribute, scope)), scope)


def _sub(argument: Any, scope: Scope) -> Any:
    text, variables = references.sub_parts(argument)
    values = {
        name: evaluate(variables[name.strip()], scope)
        if name.strip() in variables
        else _referenced(references.of_variable(name), scope)
        for name in SUB_VARIABLE.findall(text)
        if not name.startswith("!")
    }
    if missing := waits_for(values):
        return pending({"Fn::Sub": [text, values]}, missing)
    for name, value in values.items():
        if isinstance(value, dict | list):
            fail(f"Template error: variable {name} in Fn::Sub expression does not resolve to a string")
    literal = SUB_VARIABLE.sub(
        lambda found: f"${{{found[1][1:]}}}" if found[1].startswith("!") else to_text(values[found[1]]), text
    )
    return scope.dynamic(literal)


def _if(argument: Any, scope: Scope) -> Any:
    if not isinstance(argument, list) or len(argument) != 3:
        fail("Template error: Fn::If requires a list argument with three elements")
    name, then, otherwise = argument
    return evaluate(then if condition(name, scope) else otherwise, scope)


def _select(argument: Any, scope: Scope) -> Any:
    # Lazy: one known element of a list can be selected while others are still pending.
    index, items = evaluate(argument, scope)
    missing = waits_for(index) if isinstance(items, list) else waits_for([index, items])
    if missing:
        return pending({"Fn::Select": [index, items]}, missing)
    try:
        number = int(index)
        if number < 0:
            raise IndexError
        return items[number]
    except (IndexError, ValueError, TypeError):
        fail(f"Template error: Fn::Select cannot select nonexistent value at index {index}")


def _logical(name: str) -> Callable[[Any, Scope], bool]:
    return lambda argument, scope: _holds({name: argument}, scope, ())


LAZY: dict[str, Callable[[Any, Scope], Any]] = {
    "Ref": lambda argument, scope: _referenced(Reference(logical_id=argument), scope),
    "Fn::GetAtt": _get_att,
    "Fn::Sub": _sub,
    "Fn::If": _if,
    "Fn::Select": _select,
    "Fn::Equals": _logical("Fn::Equals"),
    **{name: _logical(name) for name in LOGIC},
    "Fn::Transform": lambda argument, scope: fail(
        "Fn::Transform runs a macro, and the yard runs none: put the expanded text into the template"
    ),
}
