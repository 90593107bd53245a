"""An error as AWS would answer it: every service of the yard raises it, and protocols.py writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# The author of the resource says why, and CloudFormation repeats it as it is.
CUSTOM_RESOURCE_FAILED = "CustomResourceFailed"
# Whoever ended the stack's operation says why, and not a handler.
CANCELLED = "Cancelled"


class ApiError(Exception):
    """`code` is the service's own error code (ValidationException, Throttling, …)."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def not_emulated(service: str, operation: str, detail: str = "", *, reason: str = "") -> ApiError:
    """Build the answer for what the yard does not emulate; no SDK repeats a 501."""
    return ApiError(
        "NotImplemented",
        f"the yard does not emulate {service}:{operation or '(no such operation)'}"
        + (f" as it was asked ({detail})" if detail else "")
        + (f": {reason}" if reason else "")
        + "; `slipway yard status` lists what it does emulate",
        status=501,
    )


# Every text in a request, however deep: what is looked for by name or by form in any call.


def texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text below a value with the name of its parameter."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item, name)
