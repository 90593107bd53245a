"""Names that only the yard's own state can turn into ARNs: aliases of keys, names of secrets."""

from __future__ import annotations

from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.permissions.calls.asked import arn

_UNKNOWN_SUFFIX = "-??????"  # how AWS names a secret in its refusals before it knows the last six letters


def key_arn(given: str, region: str) -> str:
    """Return the ARN of a key that was given as an id, an ARN or an alias."""
    from moto.kms.models import kms_backends

    backend: Any = kms_backends[ACCOUNT][region]
    try:
        return str(backend.describe_key(given).arn)
    except Exception:  # noqa: BLE001 - moto's errors for a key that is not there have no common type
        return given if given.startswith("arn:") else arn("kms", region, f"key/{given}")


def secret_arn(given: str, region: str) -> str:
    from moto.secretsmanager.models import secretsmanager_backends

    secret = secretsmanager_backends[ACCOUNT][region].secrets.get(given)
    if secret is not None:
        return str(secret.arn)
    return (
        given
        if given.startswith("arn:")
        else arn("secretsmanager", region, f"secret:{given}{_UNKNOWN_SUFFIX}")
    )
