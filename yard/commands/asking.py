"""Sends requests of `slipway yard` commands to the running yard; help and completion load none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipway.yard.state import YardState


def ask(method: str, path: str, body: object = None) -> Any:
    """Return the running yard's answer, decoded from JSON: `ask("GET", "/status")`."""
    from slipway.yard.endpoint import control

    return control(running_yard(), method, path, body)


def running_yard() -> YardState:
    from slipway.yard import process

    return process.required()
