"""The CDK's Provider: a function of Node.js that calls the author's. The yard calls them with its rights.

Source: the reference of aws-cdk-lib.custom_resources, "Provider Framework".
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.gateway import keys
from slipway.yard.machines.settings import real_seconds
from slipway.yard.permissions import roles
from slipway.yard.services.functions import deployed
from slipway.yard.services.functions.deployed import DeployedFunction
from slipway.yard.services.functions.invocation import SERVICE

ON_EVENT, IS_COMPLETE = "USER_ON_EVENT_FUNCTION_ARN", "USER_IS_COMPLETE_FUNCTION_ARN"
# The CDK's defaults; what an app sets instead stands in the state machine, which the yard does not run.
QUERY_INTERVAL_S, TOTAL_TIMEOUT_S = 5, 30 * 60


def is_one(variables: object) -> bool:
    """Return True for the environment of such a function."""
    return isinstance(variables, Mapping) and ON_EVENT in variables


def find(token: str, region: str) -> DeployedFunction | None:
    """Return the framework's function behind a service token; None where the token is of another one."""
    function = deployed.find(token, None, region)
    return function if is_one(function.variables) else None


def answer(framework: DeployedFunction, event: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the author's functions, and return what the framework would answer."""
    session = roles.assume(framework.role, SERVICE, framework.name)
    client = keys.client(session, "lambda", framework.region)
    said = _asked(client, framework.variables[ON_EVENT], event)
    default = event["RequestId"] if event["RequestType"] == "Create" else event["PhysicalResourceId"]
    known = {**event, **said, "PhysicalResourceId": said.get("PhysicalResourceId") or default}
    data = dict(said.get("Data") or {})
    if waits := framework.variables.get(IS_COMPLETE):
        data |= _completed(client, waits, known)
    return {"Status": "SUCCESS", "PhysicalResourceId": known["PhysicalResourceId"], "Data": data}


def _completed(client: Any, function: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(TOTAL_TIMEOUT_S // QUERY_INTERVAL_S):
        said = _asked(client, function, event)
        if said.get("IsComplete"):
            return said.get("Data") or {}
        time.sleep(real_seconds(QUERY_INTERVAL_S))
    raise ApiError("NotStabilized", "Operation timed out")


def _asked(client: Any, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
    from botocore.exceptions import ClientError

    try:
        answered = client.invoke(FunctionName=function, Payload=json.dumps(event))
    except ClientError as error:
        raise ApiError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error
    said = json.loads(answered["Payload"].read())
    if answered.get("FunctionError"):
        raise ApiError("Failed", f"{said.get('errorType')}: {said.get('errorMessage')}")
    if not isinstance(said, dict | None):
        raise ApiError("Failed", f"return values must be JSON objects, and {function} returned {said!r}")
    return said or {}
