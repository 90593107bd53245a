"""Applies the yard's faults to requests and answers, depending on the caller.

Services of the yard that call each other are spared. CloudFormation retries its calls, so it meets all faults
but lost answers: not every call of AWS has a token that makes it safe to repeat.
"""

from __future__ import annotations

from typing import Any

from slipway.yard.chaos import conditions, consistency, throttling
from slipway.yard.endpoint import CALLER_HEADER, INSIDE
from slipway.yard.errors import ApiError
from slipway.yard.gateway.protocols import Call, Reply

_CALLER = f"HTTP_{CALLER_HEADER.upper().replace('-', '_')}"
SERVER_ERROR = "InternalError"


def enter(environ: dict[str, Any], call: Call) -> None:
    """Raise the error of a fault if one strikes this call."""
    consistency.catch_up()
    if _caller(environ) == INSIDE:
        return
    throttling.check(call.service, call.operation)
    if conditions.strikes("server-errors", f"{call.service}:{call.operation}"):
        raise ApiError(SERVER_ERROR, "We encountered an internal error. Please try again.", status=500)
    parameters = call.parameters or {}
    consistency.check(call.service, call.operation, parameters)
    wanted = str(parameters.get("InstanceType", ""))
    if (call.service, call.operation) == ("ec2", "RunInstances") and conditions.lacks_capacity(wanted):
        raise conditions.no_capacity(wanted, f"{call.region}a")


def leave(environ: dict[str, Any], call: Call, reply: Reply) -> bool:
    """Hide what this call has made, if that fault is on; return True if its answer gets lost."""
    if reply.status < 300:  # the call succeeded
        consistency.note(call.service, call.operation, call.parameters or {}, reply.body)
    is_change = not call.operation.startswith(throttling.READS)
    if not is_change or _caller(environ):
        return False
    return conditions.strikes("lost-answers", f"{call.service}:{call.operation}")


def reset() -> None:
    for module in (conditions, throttling, consistency):
        module.reset()


def _caller(environ: dict[str, Any]) -> str:
    """Return the part of the yard that sent the call; empty for calls from outside."""
    return str(environ.get(_CALLER, ""))
