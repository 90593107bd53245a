"""A Python runtime for Lambda, in the process of one invocation: `python handler.py FOLDER`.

FOLDER has request.json and event.json, and gets result.json. Standard library only. Unlike AWS's runtime
it exits after one event, and supports no extensions.
Errors are those of https://github.com/aws/aws-lambda-python-runtime-interface-client.
"""

from __future__ import annotations

import http.client
import importlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

UNHANDLED = "Unhandled"


class HandlerFailed(Exception):
    """Raised if the event was not handled; `kind` is the errorType that the caller gets."""

    def __init__(self, kind: str, message: str, trace: list[str] | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.trace = kind, message, trace or []


class LambdaContext:
    """The second argument of a handler."""

    def __init__(self, facts: Mapping[str, str], deadline: float) -> None:
        self.function_name = facts["function_name"]
        self.function_version = facts["function_version"]
        self.invoked_function_arn = facts["invoked_function_arn"]
        self.memory_limit_in_mb = facts["memory_limit_in_mb"]
        self.aws_request_id = facts["aws_request_id"]
        self.log_group_name = facts["log_group_name"]
        self.log_stream_name = facts["log_stream_name"]
        self.identity = None
        self.client_context = None
        self._deadline = deadline

    def get_remaining_time_in_millis(self) -> int:
        return max(0, round((self._deadline - time.monotonic()) * 1000))

    def log(self, message: object) -> None:
        sys.stdout.write(str(message))


def main(folder: str) -> NoReturn:
    place = Path(folder)
    request = json.loads((place / "request.json").read_text(encoding="utf-8"))
    event = json.loads((place / "event.json").read_text(encoding="utf-8"))
    sys.path[0] = request["task"]
    _open_yard_without_tls(request["yard"])
    try:
        handler = _load(request["handler"])
        timer = threading.Timer(request["timeout_s"], _time_out, (place, request))
        timer.daemon = True
        timer.start()
        context = LambdaContext(request["context"], time.monotonic() + request["timeout_s"])
        _write(place, "", _handled(handler, event, context))
    except HandlerFailed as failure:
        sys.stdout.write(f"[ERROR] {failure.kind}: {failure.message}\n")
        if failure.trace:
            sys.stdout.write("Traceback (most recent call last):\n" + "".join(failure.trace))
        said = {
            "errorMessage": failure.message,
            "errorType": failure.kind,
            "requestId": request["context"]["aws_request_id"],
            "stackTrace": failure.trace,
        }
        _write(place, UNHANDLED, json.dumps(said))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # this ends the handler's threads, which AWS would freeze


def _load(name: str) -> Callable[[Any, LambdaContext], Any]:
    """Import `package/module.function`."""
    module, dot, function = name.rpartition(".")
    if not dot:
        raise HandlerFailed("Runtime.MalformedHandlerName", f"Bad handler '{name}': not enough values")
    try:
        found = importlib.import_module(module.replace("/", "."))
    except ImportError as error:
        message = f"Unable to import module '{module}': {error}"
        raise HandlerFailed("Runtime.ImportModuleError", message) from error
    except SyntaxError as error:
        message = f"Syntax error in module '{module}': {error}"
        raise HandlerFailed("Runtime.UserCodeSyntaxError", message) from error
    except Exception as error:  # a user's function may raise anything
        raise _of(error) from error
    if not hasattr(found, function):
        message = f"Handler '{function}' missing on module '{module}'"
        raise HandlerFailed("Runtime.HandlerNotFound", message)
    handler: Callable[[Any, LambdaContext], Any] = getattr(found, function)
    return handler


def _handled(handler: Callable[[Any, LambdaContext], Any], event: Any, context: LambdaContext) -> str:
    try:
        answer = handler(event, context)
    except Exception as error:  # a user's function may raise anything
        raise _of(error) from error
    try:
        return json.dumps(answer)
    except (TypeError, ValueError) as error:
        raise HandlerFailed("Runtime.MarshalError", f"Unable to marshal response: {error}") from error


def _of(error: Exception) -> HandlerFailed:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return HandlerFailed(type(error).__name__, str(error), traceback.format_list(frames))


def _time_out(place: Path, request: Mapping[str, Any]) -> None:
    """End the process if the handler is not done in time."""
    number = request["context"]["aws_request_id"]
    message = f"RequestId: {number} Error: Task timed out after {request['timeout_s']:.2f} seconds"
    _write(place, UNHANDLED, json.dumps({"errorType": "Sandbox.Timedout", "errorMessage": message}))
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()
    os._exit(0)


def _write(place: Path, error: str, payload: str) -> None:
    (place / "result.json").write_text(json.dumps({"error": error, "payload": payload}), encoding="utf-8")


def _open_yard_without_tls(address: str) -> None:
    """Let HTTPSConnection use plain HTTP for the yard's address: handlers open the response URL with it."""
    as_on_aws = http.client.HTTPSConnection.connect

    def connect(self: http.client.HTTPSConnection) -> None:
        if f"{self.host}:{self.port}" == address:
            http.client.HTTPConnection.connect(self)
        else:
            as_on_aws(self)

    http.client.HTTPSConnection.connect = connect  # type: ignore[assignment,method-assign]  # only in this process


if __name__ == "__main__":
    main(sys.argv[1])
