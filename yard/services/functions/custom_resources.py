"""Custom resources that a Lambda function of the template makes; it sends its response to a URL.

Sources: CloudFormation user guide, "Custom resource request types", "… response objects".
"""

from __future__ import annotations

import json
import queue
import secrets
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Properties, Provider, Resource
from slipway.yard.cloudformation.resources.registry import CUSTOM, CUSTOM_RESOURCE, LAMBDA, TYPES, no_function
from slipway.yard.cloudformation.resources.scope import ResourceScope
from slipway.yard.cloudformation.template.blueprint import Blueprint, Planned
from slipway.yard.cloudformation.template.scope import Pending
from slipway.yard.endpoint import CONTROL_PATH, own_endpoint
from slipway.yard.errors import CANCELLED, CUSTOM_RESOURCE_FAILED, ApiError
from slipway.yard.machines.settings import real_seconds
from slipway.yard.permissions import keys, roles
from slipway.yard.services.functions import plan, sdk_calls
from slipway.yard.services.functions.invocation import SERVICE
from slipway.yard.services.functions.plan import DeployedFunction

SERVICE_TIMEOUT_S = 3600
LOOK_S = 0.05  # between polls for a response
LARGEST_RESPONSE_BYTES = 4096
FUNCTION = "AWS::Lambda::Function"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionBacked:
    """Provides a resource that a function makes; its response has the physical id and the attributes."""

    type: str

    def create(self, context: Context, properties: Properties) -> Resource:
        try:
            return _resource(self._answer(context, properties, {"RequestType": "Create"}))
        except ApiError as failure:
            if failure.code not in (CUSTOM_RESOURCE_FAILED, CANCELLED):
                raise
            # Delete what the failed creation left behind. AWS does so in the rollback, the yard at once.
            named = failure.physical_id if isinstance(failure, _CustomResourceFailed) else ""
            physical_id = named or context.default_name
            with suppress(ApiError):  # the creation's error is the one to report
                self._delete(context, properties, physical_id)
            raise

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        asked = {
            "RequestType": "Update",
            "PhysicalResourceId": resource.physical_id,
            "OldResourceProperties": _texts(old),
        }
        return _resource(self._answer(context, new, asked), before=resource)

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        self._delete(context, properties, resource.physical_id)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        raise NotImplementedError

    def _delete(self, context: Context, properties: Properties, physical_id: str) -> None:
        asked = {"RequestType": "Delete", "PhysicalResourceId": physical_id}
        self._answer(context.uncancelled(), properties, asked)

    def _answer(
        self, context: Context, properties: Properties, asked: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the function's response; raise ApiError if it failed or did not respond in time."""
        token, request_id = str(properties.get("ServiceToken", "")), str(uuid.uuid4())
        if LAMBDA not in token:
            raise ApiError("ValidationError", no_function(context.logical_id, token))
        if sdk_calls.is_one(properties):
            return sdk_calls.answer(context, properties, asked)
        event = {
            **asked,
            "ServiceToken": token,
            "StackId": context.stack_id,
            "RequestId": request_id,
            "LogicalResourceId": context.logical_id,
            "ResourceType": self.type,
            "ResourceProperties": _texts(properties),
        }
        function = plan.find(token, None, context.region)
        if _is_framework(function.variables):
            return _from_framework(context, function, event)
        return _from_function(context, properties, event)


def _from_function(context: Context, properties: Properties, event: Mapping[str, Any]) -> Mapping[str, Any]:
    limit_s = real_seconds(int(properties.get("ServiceTimeout", SERVICE_TIMEOUT_S)))
    scope = ResourceScope(context=context, service="lambda", properties=properties)
    with expected() as response:
        payload = json.dumps({**event, "ResponseURL": response.url})
        scope.send("invoke", FunctionName=event["ServiceToken"], InvocationType="Event", Payload=payload)
        try:
            return _checked(response.wait(limit_s, context, event["RequestType"]), event["RequestId"])
        except NoResponse as error:
            raise _CustomResourceFailed(
                "CloudFormation did not receive a response from your Custom Resource. Please check your logs"
                f" for requestId [{event['RequestId']}]. If you are using the Python cfn-response module, you"
                " may need to update your Lambda function code so that CloudFormation can attach the updated"
                " version."
            ) from error
        except ValueError as error:
            raise _CustomResourceFailed(f"Invalid response object: {error}") from error


class _CustomResourceFailed(ApiError):
    def __init__(self, message: str, physical_id: str = "") -> None:
        super().__init__(CUSTOM_RESOURCE_FAILED, message)
        self.physical_id = physical_id


def _checked(answer: Mapping[str, Any], request_id: str) -> Mapping[str, Any]:
    physical_id = str(answer.get("PhysicalResourceId") or "")
    if answer.get("Status") != "SUCCESS":
        raise _CustomResourceFailed(
            f"Received response status [{answer.get('Status')}] from custom resource. Message returned:"
            f" {answer.get('Reason')} (RequestId: {request_id})",
            physical_id,
        )
    if not physical_id:
        raise _CustomResourceFailed("Invalid PhysicalResourceId")
    if len(json.dumps(answer)) > LARGEST_RESPONSE_BYTES:
        raise _CustomResourceFailed("Response object is too long.", physical_id)
    return answer


def _resource(answer: Mapping[str, Any], before: Resource | None = None) -> Resource:
    physical_id = str(answer["PhysicalResourceId"])
    return Resource(
        physical_id=physical_id,
        attributes=answer.get("Data") or {},
        is_another=before is not None and before.physical_id != physical_id,
    )


def _texts(value: Any) -> Any:
    """Return the properties as functions get them: CloudFormation turns numbers and booleans into text."""
    if isinstance(value, Mapping):
        return {name: _texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def provider(kind: str) -> Provider:
    """Return the provider of a custom resource type that a template names."""
    return FunctionBacked(type=kind)


PROVIDERS: Mapping[str, Provider] = {CUSTOM_RESOURCE: provider(CUSTOM_RESOURCE)}


# The URLs for responses of custom resources: each is secret, and valid for one response. On AWS it is a
# pre-signed URL of S3; here it is a URL of the yard whose path has the secret.
PATH = "/custom-resource-responses/"
_SECRET_BYTES = 32

_expected: dict[str, ExpectedResponse] = {}


class NoResponse(Exception):
    """Raised if no response came in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedResponse:
    url: str
    arrived: queue.Queue[bytes] = field(default_factory=lambda: queue.Queue(maxsize=1))

    def wait(self, seconds: float, context: Context, asked: str) -> Mapping[str, Any]:
        """Return the response; raise NoResponse after this time, ValueError if it is not a JSON object."""
        deadline = time.monotonic() + seconds
        while self.arrived.empty():
            if time.monotonic() > deadline:
                raise NoResponse
            context.pause(LOOK_S, asked)
        answer = json.loads(self.arrived.get())
        if not isinstance(answer, dict):
            raise ValueError(f"it is {type(answer).__name__}, and has to be an object")
        return answer


@contextmanager
def expected() -> Iterator[ExpectedResponse]:
    """Open a URL for a response, and close it at the end of the block."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    one = ExpectedResponse(url=f"{own_endpoint()}{CONTROL_PATH}{PATH}{secret}")
    _expected[secret] = one
    try:
        yield one
    finally:
        _expected.pop(secret, None)


def receive(path: str, body: bytes) -> bool:
    """Accept a response; return False if none is awaited at this path."""
    one = _expected.pop(path.removeprefix(PATH), None)
    if one is not None:
        one.arrived.put(body)
    return one is not None


# The CDK's Provider framework is a Node.js function that calls the author's functions. Here the yard calls
# them, with the framework function's rights. Source: the reference of aws-cdk-lib.custom_resources, "Provider
# Framework".
ON_EVENT, IS_COMPLETE = "USER_ON_EVENT_FUNCTION_ARN", "USER_IS_COMPLETE_FUNCTION_ARN"
# The CDK's defaults. An app's own values would be in the state machine, which the yard does not read.
QUERY_INTERVAL_S, TOTAL_TIMEOUT_S = 5, 30 * 60


def _is_framework(variables: object) -> bool:
    """Return True if these are the variables of a framework function."""
    return isinstance(variables, Mapping) and ON_EVENT in variables


def _from_framework(
    context: Context, framework: DeployedFunction, event: Mapping[str, Any]
) -> dict[str, Any]:
    """Call the author's functions, and return the framework's response."""
    session = roles.assume(framework.role, SERVICE, framework.name)
    client = keys.client(session, "lambda", framework.region)
    answer = _asked(client, framework.variables[ON_EVENT], event)
    default = event["RequestId"] if event["RequestType"] == "Create" else event["PhysicalResourceId"]
    known = {**event, **answer, "PhysicalResourceId": answer.get("PhysicalResourceId") or default}
    data = dict(answer.get("Data") or {})
    if waits := framework.variables.get(IS_COMPLETE):
        data |= _completed(context, client, waits, known)
    return {"Status": "SUCCESS", "PhysicalResourceId": known["PhysicalResourceId"], "Data": data}


def _completed(context: Context, client: Any, function: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(TOTAL_TIMEOUT_S // QUERY_INTERVAL_S):
        answer = _asked(client, function, event)
        if answer.get("IsComplete"):
            return answer.get("Data") or {}
        context.pause(real_seconds(QUERY_INTERVAL_S), event["RequestType"])
    raise ApiError("NotStabilized", "Operation timed out")


def _asked(client: Any, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    try:
        answered = client.invoke(FunctionName=function, Payload=json.dumps(event))
    except ClientError as error:
        raise ApiError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error
    answer = json.loads(answered["Payload"].read())
    if answered.get("FunctionError"):
        raise ApiError("Failed", f"{answer.get('errorType')}: {answer.get('errorMessage')}")
    if not isinstance(answer, dict | None):
        raise ApiError("Failed", f"return values must be JSON objects, and {function} returned {answer!r}")
    return answer or {}


# Custom resources whose function the yard cannot run are refused before anything of their stack is made.


def refuse_functions(blueprint: Blueprint) -> None:
    """Raise ApiError that names each of them; a function that is not known yet is checked later."""
    found = []
    for name, planned in blueprint.resources.items():
        kind = planned.declared.type
        if (kind in TYPES and kind != CUSTOM_RESOURCE) or not kind.startswith((CUSTOM, CUSTOM_RESOURCE)):
            continue
        token = planned.properties.get("ServiceToken")
        if isinstance(token, str) and LAMBDA not in token:
            found.append(no_function(name, token))
        elif sdk_calls.is_one(planned.properties):
            continue
        elif why := _why_not(_function(token, blueprint.resources)):
            found.append(f"the yard cannot make {name}, {kind}: {why}")
    if found:
        raise ApiError("ValidationError", "Template format error: " + "\n".join(found))


def _why_not(function: Planned | None) -> str:
    runtime = function.properties.get("Runtime", "") if function else None
    if function is None or not isinstance(runtime, str):
        return ""
    environment = function.properties.get("Environment")
    if isinstance(environment, Mapping) and _is_framework(environment.get("Variables")):
        return ""
    why = plan.refusal(runtime, bool(function.properties.get("Layers")))
    return f"it cannot run {function.declared.logical_id}: {why}" if why else ""


def _function(token: Any, resources: Mapping[str, Planned]) -> Planned | None:
    """Return the function of this template whose ARN the token is."""
    if not isinstance(token, Pending) or "Fn::GetAtt" not in json.loads(token.expression):
        return None
    (reference,) = token.references
    found = resources[reference.logical_id]
    return found if found.declared.type == FUNCTION else None
