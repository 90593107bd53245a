"""What an event says of a failed resource, in the form in which AWS and the CDK read it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.template import schemas
from slipway.yard.errors import CUSTOM_RESOURCE_FAILED, ApiError

LOG = logging.getLogger(__name__)
# By what the services' codes contain, the handler error codes of
# https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-test-contract-errors.html
HANDLER_CODES = (
    ("Already", "AlreadyExists"),
    ("Duplicate", "AlreadyExists"),
    ("Conflict", "ResourceConflict"),
    ("NotFound", "NotFound"),
    ("NoSuch", "NotFound"),
    ("Throttl", "Throttling"),
    ("LimitExceeded", "ServiceLimitExceeded"),
    ("InsufficientInstanceCapacity", "NotStabilized"),
    ("AccessDenied", "AccessDenied"),
    ("Authorization", "AccessDenied"),  # of SNS
    ("Unauthorized", "AccessDenied"),  # of EC2
    ("Invalid", "InvalidRequest"),
    ("Validation", "InvalidRequest"),
    ("Client", "InvalidRequest"),
)


def handler_reason(error: Exception, *, existing: str | None = None) -> str:
    """The reason of a *_FAILED event; `existing` describes the resource, should another be in its place."""
    code, message = _code_and_message(error)
    if code == CUSTOM_RESOURCE_FAILED:
        return message
    handler_code = next((word for part, word in HANDLER_CODES if part in code), "GeneralServiceException")
    if handler_code == "AlreadyExists" and existing:
        message = f"{existing} already exists."
    details = f"(RequestToken: {uuid.uuid4()}, HandlerErrorCode: {handler_code})"
    return f'Resource handler returned message: "{message}" {details}'


def identified(resource_type: str, properties: Mapping[str, Any]) -> str | None:
    """The resource by the name that its template gives it, in CloudFormation's words."""
    names = [properties.get(key) for key in schemas.primary_identifier(resource_type)]
    if not names or None in names:
        return None
    return f"Resource of type '{resource_type}' with identifier '{'|'.join(map(str, names))}'"


def _code_and_message(error: Exception) -> tuple[str, str]:
    if isinstance(error, ApiError):
        return error.code, error.message
    response: Any = getattr(error, "response", None)  # botocore's ClientError
    if isinstance(response, dict) and "Error" in response:
        return str(response["Error"].get("Code", "")), str(error)
    LOG.exception("a resource provider of the yard failed", exc_info=error)
    return "InternalFailure", f"{type(error).__name__}: {error}"


def failed(verb: str, names: list[str]) -> str:
    """The reason of a stack that goes on because resources failed."""
    return f"The following resource(s) failed to {verb}: [{', '.join(names)}]. "
