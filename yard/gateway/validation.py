"""Refuses parameters that AWS would refuse: moto accepts nearly anything, so botocore's models decide.

A service with its own error code for invalid parameters has a line in CODES. Its contract checks the rules
that are missing in its model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from slipway.jobs.words.text import decode_json
from slipway.yard.errors import ApiError
from slipway.yard.gateway.protocols import STREAMED, Call

CODES: Mapping[str, str] = {
    "autoscaling": "ValidationError",
    "batch": "ClientException",
    "cloudformation": "ValidationError",
    "codebuild": "InvalidInputException",
    "ec2": "InvalidParameterValue",
    "ecr": "InvalidParameterException",
    "ecs": "InvalidParameterException",
    "efs": "BadRequest",
    "elbv2": "ValidationError",
    "fsx": "BadRequest",
    "iam": "ValidationError",
    "imagebuilder": "InvalidParameterValueException",
    "logs": "InvalidParameterException",
    "pricing": "InvalidParameterException",
    "service-quotas": "IllegalArgumentException",
    "sns": "InvalidParameter",
    "sts": "ValidationError",
}
DEFAULT_CODE = "ValidationException"
Contract = Callable[[Call], Iterator[str]]

# The query protocols' own parameters.
_PROTOCOL_PARAMETERS = frozenset({"Action", "Version"})


def check(call: Call, contracts: Mapping[str, Contract]) -> None:
    """Raise one ApiError that lists everything that the service's model or its contract does not allow."""
    if call.service in STREAMED:
        return
    found = [*_problems_of_form(call)]
    if call.parameters is not None and call.model.input_shape is not None:
        found += problems(call.model.input_shape, call.parameters)
        contract = contracts.get(call.service)
        if contract and not found:
            found += contract(call)
    if found:
        many = f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected: "
        raise ApiError(CODES.get(call.service, DEFAULT_CODE), many + "; ".join(found))


# Checks the raw request for unknown members and wrong types, since the parser drops what it does not know.


def _problems_of_form(call: Call) -> Iterator[str]:
    shape = call.model.input_shape
    if call.protocol in ("query", "ec2"):
        yield from _unknown_form_keys(call)
    elif call.body and shape is not None:
        payload = shape.serialization.get("payload")
        if payload and shape.members[payload].type_name in ("blob", "string"):
            return
        if call.protocol in ("json", "rest-json"):
            yield from _raw_problems(shape.members[payload] if payload else shape, _decoded(call.body), "")


def _decoded(body: bytes) -> Any:
    try:
        return decode_json(body)
    except ValueError as error:
        raise ApiError("SerializationException", f"the request's body is not JSON: {error}") from error


def _unknown_form_keys(call: Call) -> Iterator[str]:
    """Yield the keys that the parser did not understand: botocore, writing its result, leaves them out."""
    from botocore.serialize import create_serializer

    if call.parameters is None:
        return
    serializer = create_serializer(call.protocol, include_validation=False)
    understood = serializer.serialize_to_request(dict(call.parameters), call.model)["body"]
    for key, value in parse_qsl(call.body.decode(errors="replace"), keep_blank_values=True):
        # An empty value may be an empty list or structure, which the parser cannot see.
        if value and key not in understood and key not in _PROTOCOL_PARAMETERS:
            yield f"Unknown parameter '{key}' for {call.operation}"


_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float, str),  # "NaN" and "Infinity" are text in JSON
    "double": (int, float, str),
}


def _raw_problems(shape: Any, value: Any, path: str) -> Iterator[str]:
    if value is None or getattr(shape, "is_document_type", False):
        return
    allowed = _JSON_TYPES.get(shape.type_name)
    is_boolean_for_number = isinstance(value, bool) and shape.type_name != "boolean"
    if allowed is not None and (is_boolean_for_number or not isinstance(value, allowed)):
        yield f"{at(value, path)} is of the wrong type; it must be a {shape.type_name}"
        return
    for member, item, where in _raw_members(shape, value, path):
        if member is None:
            yield f"Unknown parameter '{where}'; allowed are {', '.join(shape.members)}"
        else:
            yield from _raw_problems(member, item, where)


def _raw_members(shape: Any, value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield each part of a value with its shape and path; an unknown member has no shape."""
    if shape.type_name == "structure":
        named = {member.serialization.get("name", name): member for name, member in shape.members.items()}
        yield from ((named.get(name), item, join(path, name)) for name, item in value.items())
    elif shape.type_name == "list":
        yield from ((shape.member, item, f"{path}.{number}") for number, item in enumerate(value, 1))
    elif shape.type_name == "map":
        yield from ((shape.value, item, join(path, name)) for name, item in value.items())


# Checks the constraints of botocore's models: required, enum, pattern, length and range.
# To check another type of shape: one function and its line in _CHECKS.
SHOWN_CHARACTERS = 200


def problems(shape: Any, value: Any, path: str = "") -> Iterator[str]:
    """Yield everything that is wrong with a value, in AWS's own words."""
    if value is None or getattr(shape, "is_document_type", False):
        return
    if checked := _CHECKS.get(shape.type_name):
        yield from checked(shape, value, path)


def _structure(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield _refused(None, join(path, name), "Member must not be null")
    for name, item in value.items():
        if name in shape.members:
            yield from problems(shape.members[name], item, join(path, name))


def _list(shape: Any, value: Sequence[Any], path: str) -> Iterator[str]:
    yield from _bounds(shape, len(value), value, path, "have length")
    for number, item in enumerate(value, 1):
        yield from problems(shape.member, item, f"{path}.{number}.member")


def _map(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _bounds(shape, len(value), value, path, "have length")
    for name, item in value.items():
        yield from problems(shape.key, name, f"{path}.key")
        yield from problems(shape.value, item, join(path, name))


def _string(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        return
    if shape.enum and value not in shape.enum:
        yield _refused(value, path, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]")
    yield from _bounds(shape, len(value), value, path, "have length")
    pattern = shape.metadata.get("pattern")
    if pattern and not matches(pattern, value):
        yield _refused(value, path, f"Member must satisfy regular expression pattern: {pattern}")


def _number(shape: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _bounds(shape, value, value, path, "have value")


def _blob(shape: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, bytes | str):
        yield from _bounds(shape, len(value), "(bytes)", path, "have length")


def _bounds(shape: Any, measure: float, value: Any, path: str, what: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and measure < low:
        yield _refused(value, path, f"Member must {what} greater than or equal to {low}")
    if high is not None and measure > high:
        yield _refused(value, path, f"Member must {what} less than or equal to {high}")


_CHECKS: Mapping[str, Callable[[Any, Any, str], Iterator[str]]] = {
    "structure": _structure,
    "list": _list,
    "map": _map,
    "string": _string,
    "character": _string,
    "integer": _number,
    "long": _number,
    "float": _number,
    "double": _number,
    "blob": _blob,
}


def _refused(value: Any, path: str, constraint: str) -> str:
    """Return AWS's message for a value that is refused."""
    return f"{at(value, path)} failed to satisfy constraint: {constraint}"


def at(value: Any, path: str) -> str:
    shown = "null" if value is None else f"'{str(value)[:SHOWN_CHARACTERS]}'"
    return f"Value {shown} at '{path}'"


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def matches(pattern: str, value: str) -> bool:
    """Match as AWS does: the whole value, unless the pattern has anchors."""
    compiled = _compiled(pattern)
    if compiled is None:
        return True
    is_anchored = pattern.startswith("^") or pattern.endswith("$")
    return (compiled.search if is_anchored else compiled.fullmatch)(value) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    """Compile Java's regular expression as closely as the regex module can; None if it cannot."""
    import regex

    # Java writes a character beyond 16 bits as two escapes, which Python would read as two characters.
    one_escape = regex.sub(
        r"\\u(D[89AB][0-9A-F]{2})\\u(D[C-F][0-9A-F]{2})",
        lambda pair: f"\\U{0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + (int(pair[2], 16) - 0xDC00):08x}",
        pattern,
        flags=regex.IGNORECASE,
    )
    try:
        return regex.compile(one_escape)
    except regex.error:
        return None
