"""The error that every service of the yard raises; gateway/protocols.py writes it as AWS would answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# CloudFormation repeats messages with these codes unchanged, without a handler's error code around them.
CUSTOM_RESOURCE_FAILED = "CustomResourceFailed"  # the function of a custom resource gave the reason
CANCELLED = "Cancelled"  # the stack's operation was cancelled


class ApiError(Exception):
    """A service's refusal; `code` is the service's own error code (ValidationException, Throttling, …)."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def validation_error(message: str) -> ApiError:
    """Build CloudFormation's refusal of a request or a template."""
    return ApiError("ValidationError", message)


def client_exception(message: str) -> ApiError:
    """Build AWS Batch's refusal of a request."""
    return ApiError("ClientException", message)


def not_emulated(service: str, operation: str, detail: str = "", *, reason: str = "") -> ApiError:
    """Build the error for a call that the yard does not emulate; no SDK retries a 501."""
    return ApiError(
        "NotImplemented",
        f"the yard does not emulate {service}:{operation or '(no such operation)'}"
        + (f" as it was asked ({detail})" if detail else "")
        + (f": {reason}" if reason else "")
        + "; `slipway yard status` lists what it does emulate",
        status=501,
    )


@contextmanager
def going_on(log: logging.Logger, words: str, *of: object) -> Iterator[None]:
    """Log any error and go on: who looks after many things must outlive an error about one of them."""
    try:
        yield
    except Exception:
        log.exception(words, *of)


# Walks all strings in a request's parameters, to find names or ids in any call.


def texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield each string within a value, at any depth, as (name of its parameter, string)."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item, name)


def as_text(value: Any) -> Any:
    """Return a number or a boolean as CloudFormation writes it into text; any other value stays."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def with_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """Return the value with each string within changed, at any depth; names stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [with_texts(item, change) for item in value]
    if isinstance(value, Mapping):
        return {name: with_texts(item, change) for name, item in value.items()}
    return value
