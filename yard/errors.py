"""An error as AWS would answer it. Every service of the yard raises it; wire.py puts it into the protocol."""

from __future__ import annotations

# The author of the resource says why, and CloudFormation repeats it as it is.
CUSTOM_RESOURCE_FAILED = "CustomResourceFailed"


class ApiError(Exception):
    """`code` is the service's own error code (ValidationException, Throttling, …)."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
