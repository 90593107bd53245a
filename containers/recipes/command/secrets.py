"""Read the secrets for the environment of a user's command from AWS Secrets Manager, by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from slipway.containers.recipes.command.config import SECRETS_PREFIX
from slipway.containers.runtime.errors import Interruption, Refusal

# What passes by itself: names of botocore's exceptions, and codes of Secrets Manager (API Reference).
_PASSING = frozenset(
    {
        *("ConnectTimeoutError", "ConnectionClosedError", "EndpointConnectionError", "ReadTimeoutError"),
        *("CredentialRetrievalError", "ExpiredTokenException", "InternalServiceError", "ThrottlingException"),
    }
)


def read_secrets(names: Mapping[str, str], client: Any = None) -> dict[str, str]:
    """Return the value for each variable; `names` holds the secrets' names without SECRETS_PREFIX."""
    if not names:
        return {}
    if client is None:
        try:
            # botocore alone does not read AWS_REGION, which launchers are told.
            client = import_module("boto3").client("secretsmanager", region_name=os.environ.get("AWS_REGION"))
        except ImportError:
            raise Refusal(
                "this image has no boto3, which reads secrets", hint="name boto3 in a file for --requirements"
            ) from None
    return {variable: _read(f"{SECRETS_PREFIX}{name}", client) for variable, name in names.items()}


def _read(name: str, client: Any) -> str:
    try:
        return str(client.get_secret_value(SecretId=name)["SecretString"])
    except KeyError:
        raise Refusal(f"the secret {name} holds bytes", hint="store it with --secret-string") from None
    except Exception as error:  # noqa: BLE001 - botocore's errors have no common base that is known without it
        code = getattr(error, "response", {}).get("Error", {}).get("Code", type(error).__name__)
        if code in _PASSING:
            raise Interruption(f"the secret {name} cannot be read now: {code}") from None
        raise Refusal(
            f"the secret {name} cannot be read: {code}",
            hint=f"aws secretsmanager create-secret --name {name} --secret-string file://FILE, in the region "
            "of the cluster; and deploy a cluster again whose role is older than this prefix",
        ) from None
