"""What chaos does to a request on its way in and to its answer on its way out, by who sent it.

Services of the yard that call each other inside are spared. CloudFormation is not, but loses no answer: it
sends its changes with tokens, as far as AWS has them, and waits out the rest.
"""

from __future__ import annotations

from typing import Any

from slipway.yard.chaos import conditions, consistency, throttling
from slipway.yard.endpoint import CALLER_HEADER, INSIDE
from slipway.yard.errors import ApiError
from slipway.yard.gateway.protocols import Call, Reply

_CALLER = f"HTTP_{CALLER_HEADER.upper().replace('-', '_')}"
SERVER_ERROR = "InternalError"
_SERVED = 300  # a status below it: the call was carried out


def enter(environ: dict[str, Any], call: Call) -> None:
    """Raise the error that a fault answers this call with, if one does."""
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
    """Remember what this call has made; return True if its answer never arrives."""
    if reply.status < _SERVED:
        consistency.note(call.service, call.operation, call.parameters or {}, reply.body)
    is_change = not call.operation.startswith(throttling.READS)
    if not is_change or _caller(environ):
        return False
    return conditions.strikes("lost-answers", f"{call.service}:{call.operation}")


def reset() -> None:
    for module in (conditions, throttling, consistency):
        module.reset()


def _caller(environ: dict[str, Any]) -> str:
    """Return which part of the yard has called; empty for everybody else."""
    return str(environ.get(_CALLER, ""))
