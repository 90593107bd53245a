"""Lambda's Invoke: a Python function runs as a process of this machine, with the rights of its role.

This is less than AWS's sandbox: pretending.py says what is left out. Other runtimes are refused.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.functions import invocation, plan
from slipway.yard.services.functions.plan import DeployedFunction

log = logging.getLogger(__name__)

# Seconds before a failed event is retried (developer guide, "Asynchronous invocation").
RETRY_PAUSES_S = (60, 120)


def call(operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    assert operation == "Invoke", operation
    function = plan.find(str(parameters["FunctionName"]), parameters.get("Qualifier"), region)
    plan.refuse(function)
    payload = parameters.get("Payload")
    event = payload.encode() if isinstance(payload, str) else payload or b"{}"
    try:
        json.loads(event)
    except ValueError as error:
        message = f"Could not parse request body into json: {error}"
        raise ApiError("InvalidRequestContentException", message) from error
    kind = parameters.get("InvocationType") or "RequestResponse"
    if kind == "DryRun":
        return {"StatusCode": 204, "Payload": b""}
    if kind == "Event":
        name = f"function {function.name}"
        threading.Thread(target=_handle, args=(function, event), name=name, daemon=True).start()
        return {"StatusCode": 202, "Payload": b""}
    result = invocation.run(invocation.prepare(function, event, str(uuid.uuid4())))
    return {
        "StatusCode": 200,
        "Payload": result.payload,
        "ExecutedVersion": function.version,
        **({"LogResult": result.tail} if parameters.get("LogType") == "Tail" else {}),
        **({"FunctionError": result.error} if result.error else {}),
    }


def reset() -> None:
    invocation.reset()


def _handle(function: DeployedFunction, event: bytes) -> None:
    """Handle the event, with AWS's retries; every attempt has the same request id."""
    request_id = str(uuid.uuid4())
    for pause_s in (*RETRY_PAUSES_S, None):
        try:
            result = invocation.run(invocation.prepare(function, event, request_id))
        except ApiError as error:
            log.warning("the event for %s is lost: %s", function.name, error.message)
            return
        if not result.error or pause_s is None:
            return
        time.sleep(real_seconds(pause_s))
