"""The CDK's AwsCustomResource: SDK calls on create, update and delete, with its function's rights.

Its function needs Node.js, which the yard does not run, so the yard makes the calls. If the CDK's name of a
service is not boto3's: a row of SERVICES.
Source: https://github.com/aws/aws-cdk, custom-resource-handlers, aws-custom-resource-handler.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Properties
from slipway.yard.errors import ApiError
from slipway.yard.permissions import keys, roles
from slipway.yard.services.functions import plan
from slipway.yard.services.functions.invocation import SERVICE

MARK = "InstallLatestAwsSdk"  # no other custom resource of the CDK has this property
VERBS = ("Create", "Update", "Delete")
SERVICES = {
    "applicationautoscaling": "application-autoscaling",
    "cloudwatchevents": "events",
    "cloudwatchlogs": "logs",
    "cognitoidentityprovider": "cognito-idp",
    "costexplorer": "ce",
    "elasticloadbalancing": "elb",
    "elasticloadbalancingv2": "elbv2",
    "eventbridge": "events",
    "servicequotas": "service-quotas",
    "sfn": "stepfunctions",
}
# The CDK's markers for booleans, which CloudFormation would turn into text, and for an id not known yet.
_WRITTEN: Mapping[str, Any] = {"TRUE:BOOLEAN": True, "FALSE:BOOLEAN": False}
_PHYSICAL_ID = "PHYSICAL:RESOURCEID:"
_COMMAND = re.compile(r"Command$")


def is_one(properties: Properties) -> bool:
    return MARK in properties and any(verb in properties for verb in VERBS)


def answer(context: Context, properties: Properties, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Make the call of this request, if any, and return the function's response."""
    physical_id = str(asked.get("PhysicalResourceId", ""))
    given = properties.get(asked["RequestType"])
    if not given:
        return _said(physical_id or context.logical_id, {})
    call = json.loads(given) if isinstance(given, str) else given
    answered = _sent(context, properties, call, physical_id)
    shown = {name: value for name, value in answered.items() if name != "ResponseMetadata"}
    found = dict(_paths(shown, ""))  # path -> value, as in `Buckets.0.Name`
    named = call.get("physicalResourceId") or {}
    chosen = named.get("id") or found.get(named.get("responsePath", "")) or physical_id or context.logical_id
    if (paths := call.get("outputPaths")) is not None:
        found = {name: value for name, value in found.items() if name.startswith(tuple(paths))}
    return _said(str(chosen), found)


def _said(physical_id: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {"Status": "SUCCESS", "PhysicalResourceId": physical_id, "Data": data}


def _sent(
    context: Context, properties: Properties, call: Mapping[str, Any], physical_id: str
) -> Mapping[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError

    if role := call.get("assumedRoleArn"):
        words = f"{context.logical_id} asks for the role {role}: the yard takes its function's; leave it out"
        raise ApiError("ValidationError", words)
    token = str(properties["ServiceToken"])
    function = plan.find(token, None, context.region)
    session = roles.assume(function.role, SERVICE, function.name)
    name = str(call["service"]).rpartition("/")[2].removeprefix("client-").replace("-", "").lower()
    client = keys.client(session, SERVICES.get(name, name), call.get("region") or context.region)
    try:
        operation = _operation(client, str(call["action"]))
        return dict(getattr(client, operation)(**_decoded(call.get("parameters") or {}, physical_id)))
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if call.get("ignoreErrorCodesMatching") and re.search(call["ignoreErrorCodesMatching"], code):
            return {}
        raise ApiError(code, str(error.response["Error"]["Message"])) from error
    except BotoCoreError as error:
        raise ApiError("ValidationError", str(error)) from error


def _operation(client: Any, action: str) -> str:
    """Return boto3's name of an action, in any SDK's form: listBuckets, ListBucketsCommand."""
    wanted = _COMMAND.sub("", action).lower()
    for name, operation in client.meta.method_to_api_mapping.items():
        if operation.lower() == wanted:
            return str(name)
    raise ApiError("ValidationError", f"{client.meta.service_model.service_name} has no action '{action}'")


def _decoded(value: Any, physical_id: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _decoded(item, physical_id) for name, item in value.items()}
    if isinstance(value, list):
        return [_decoded(item, physical_id) for item in value]
    if value == _PHYSICAL_ID:
        return physical_id
    return _WRITTEN.get(value, value) if isinstance(value, str) else value


def _paths(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | list):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, item in items:
            yield from _paths(item, f"{path}.{name}" if path else str(name))
    elif hasattr(value, "read"):
        yield path, value.read().decode(errors="replace")
    else:
        yield path, value if isinstance(value, str | int | float | bool | None) else str(value)
