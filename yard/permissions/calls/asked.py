"""A call as permissions see it, and its needs: actions with their resources and condition keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.moto_backends import moto_backend, moto_errors
from slipway.yard.permissions.conditions import Keys

ANY_RESOURCE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    service: str  # botocore's name
    operation: str
    region: str
    parameters: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)  # S3's x-amz-…, in lower case
    user_id: str = ""  # the caller's aws:userid, with which the names of its sessions begin


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionNeed:
    """One action that a call needs on one resource."""

    action: str
    resource: str = ANY_RESOURCE
    keys: Keys = field(default_factory=dict)
    via: str = ""  # the service that acts for the caller, such as s3.us-east-1.amazonaws.com


class NotJudged(Exception):
    """Raised if the tables here do not know what a call needs."""


def arn(service: str, region: str, resource: str, *, account: str = ACCOUNT) -> str:
    return f"arn:aws:{service}:{region}:{account}:{resource}"


def found(parameters: object, path: str) -> list[str]:
    """Return the strings at a path: `Targets[].Arn`, or `Tags[]` for a list of strings."""
    values: list[object] = [parameters]
    for step in path.split("."):
        name, is_list = step.removesuffix("[]"), step.endswith("[]")
        values = [value[name] for value in values if isinstance(value, Mapping) and value.get(name)]
        if is_list:
            values = [item for value in values if isinstance(value, list) for item in value]
    return [value for value in values if isinstance(value, str) and value]


# Names that need a look-up in the yard to become ARNs: aliases of keys, names of secrets.
_UNKNOWN_SUFFIX = (
    "-??????"  # AWS's refusals end an unknown secret's ARN like this, for its six random characters
)


def key_arn(given: str, region: str) -> str:
    """Return the ARN of a key that is given as an id, an ARN or an alias."""
    backend: Any = moto_backend("kms", region)
    try:
        return str(backend.describe_key(given).arn)
    except moto_errors():
        return given if given.startswith("arn:") else arn("kms", region, f"key/{given}")


def secret_arn(given: str, region: str) -> str:
    secret = moto_backend("secretsmanager", region).secrets.get(given)
    if secret is not None:
        return str(secret.arn)
    return (
        given
        if given.startswith("arn:")
        else arn("secretsmanager", region, f"secret:{given}{_UNKNOWN_SUFFIX}")
    )
