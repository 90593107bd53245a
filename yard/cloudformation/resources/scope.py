"""The expressions in a resource type's row, and what they can see.

An expression is a function of a ResourceScope; `ID`, `prop`, `live`, `response` and `text` build the usual
ones. CloudFormation's retries are here, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slipway.yard.chaos import conditions, consistency, throttling
from slipway.yard.cloudformation.resources import execution
from slipway.yard.cloudformation.resources.provider import Context, Properties
from slipway.yard.cloudformation.resources.shapes import to_request
from slipway.yard.endpoint import ENGINE, calling_as
from slipway.yard.errors import ApiError, validation_error
from slipway.yard.gateway.chaos_gate import SERVER_ERROR

GONE = re.compile(r"NotFound|NoSuch|DoesNotExist|NotAttached|\.Unknown$|InvalidDocument$|^404$")
# For services that have only one error code, so the message has to tell.
ABSENT = re.compile(r"does not exist|Could not find|name not found")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceScope:
    """Describes one resource while it is created, changed, read or deleted."""

    context: Context
    service: str
    id: str = ""  # its physical id; empty until it is created
    properties: Properties = field(default_factory=dict)
    before: Properties = field(default_factory=dict)  # the properties before an update
    response: Mapping[str, Any] = field(default_factory=dict)  # the create call's answer
    live: Mapping[str, Any] = field(default_factory=dict)  # the describe call's answer

    def added(self, name: str) -> list[Any]:
        """Return the items that an update adds to a list; on create, all of them."""
        had = self.before.get(name) or []
        return [item for item in self.properties.get(name) or [] if item not in had]

    def removed(self, name: str) -> list[Any]:
        wanted = self.properties.get(name) or []
        return [item for item in self.before.get(name) or [] if item not in wanted]

    def send(self, operation: str, /, **parameters: Any) -> dict[str, Any]:
        """Call the resource's service in the yard, without the parameters that are None."""
        return self.send_to(self.service, operation, **parameters)

    def send_to(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        """Call any service of the yard; its refusal becomes the ApiError that the stack's events show."""
        client = self.context.client(service)
        shape = input_shape(client, operation)
        given = {key: value for key, value in parameters.items() if value is not None}
        request = to_request(shape, given)
        model, method = client.meta.service_model, client.meta.method_to_api_mapping[operation]
        execution.check(self.context, service, model.metadata["protocol"], method, request)
        with calling_as(ENGINE):
            return patiently(lambda: _send(client, operation, request))


def _send(client: Any, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
    from botocore.parsers import ResponseParserError

    try:
        return dict(getattr(client, operation)(**request))
    except ParamValidationError as error:
        raise validation_error(str(error)) from error
    except (BotoCoreError, ResponseParserError) as error:  # not an answer of the service
        service = client.meta.service_model.service_name
        raise ApiError("InternalFailure", f"{service} {operation}: {error}", status=500) from error
    except ClientError as error:
        answer = error.response
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        raise ApiError(answer["Error"]["Code"], answer["Error"]["Message"], status=status) from error


Expression = Callable[[ResourceScope], Any]
Action = Callable[[ResourceScope], Any]


def input_shape(client: Any, operation: str) -> Any:
    model = client.meta.service_model
    return model.operation_model(client.meta.method_to_api_mapping[operation]).input_shape


def ID(scope: ResourceScope) -> str:  # noqa: N802 - read in the tables as the constant it stands for
    return scope.id


def prop(name: str, default: Any = None) -> Expression:
    """Return an expression: a property of the template."""
    return lambda scope: scope.properties.get(name, default)


def live(path: str, default: Any = None) -> Expression:
    """Return an expression: a part of the describe call's answer, such as `live("VpcConfig.SubnetIds.0")`."""
    return lambda scope: pick(scope.live, path, default)


def response(path: str) -> Expression:
    """Return an expression: a part of the create call's answer."""
    return lambda scope: pick(scope.response, path)


def text(template: str) -> Expression:
    """Return an expression: text in which {id}, {region}, {account} and property names are filled in."""

    def filled(scope: ResourceScope) -> str:
        place = {"id": scope.id, "region": scope.context.region, "account": scope.context.account}
        return template.format_map({**scope.properties, **place})

    return filled


def pick(value: Any, path: str, default: Any = None) -> Any:
    for step in path.split(".") if path else ():
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return default
    return default if value is None else value


def snake(word: str) -> str:
    """Convert computeNodeGroup to compute_node_group, as boto3 names its methods."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in word)


def resolve(value: Any, scope: ResourceScope) -> Any:
    """Return `value` with every expression in it replaced by its value."""
    if isinstance(value, Mapping):
        return {key: resolve(item, scope) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, scope) for item in value]
    return value(scope) if callable(value) else value


def is_gone(error: ApiError) -> bool:
    return bool(GONE.search(error.code) or ABSENT.search(error.message))


def has_code(*codes: str) -> Callable[[ApiError], bool]:
    return lambda error: error.code in codes


@contextmanager
def tolerating(is_fine: Callable[[ApiError], bool]) -> Iterator[None]:
    """Go on after the block if it raises an error that is fine there, such as `is_gone`."""
    try:
        yield
    except ApiError as error:
        if not is_fine(error):
            raise


# CloudFormation retries a call that a service throttles or fails, or that names a resource too new to be
# known. Its own resource handlers do so for minutes ("Resource type handler contract", stabilization). Here a
# template that names something that does not exist fails at once, unless a new resource is still hidden
# (consistency.py).
DEADLINE_S = 180.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

T = TypeVar("T")


def patiently(
    send: Callable[[], T],
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> T:
    """Return the call's answer; send it again while its refusal is temporary."""
    deadline, due_s = now() + DEADLINE_S, FIRST_PAUSE_S
    while True:
        try:
            return send()
        except ApiError as error:
            if not will_pass(error) or now() > deadline:
                raise
        pause(due_s * (0.5 + conditions.draw("throttling", "pauses of CloudFormation") / 2))
        due_s = min(due_s * 2, LONGEST_PAUSE_S)


def will_pass(error: ApiError) -> bool:
    """Return True if the error is temporary, so that the same call may succeed later."""
    if error.code in throttling.CODES or error.code == SERVER_ERROR:
        return True
    return error.code in consistency.CODES and consistency.is_settling()
