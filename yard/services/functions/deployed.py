"""A function as it is deployed, read from moto, and why the yard could not run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.services.registry import not_emulated

PYTHON = "python3."


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedFunction:
    name: str
    arn: str
    version: str
    region: str
    runtime: str
    handler: str
    role: str
    timeout_s: int
    memory_mib: int
    variables: Mapping[str, str]
    code: bytes  # a zip archive
    layers: tuple[str, ...]
    subnet: str  # one of its VPC's; "" where it is in none

    @property
    def log_group(self) -> str:
        return f"/aws/lambda/{self.name}"


def find(name_or_arn: str, qualifier: str | None, region: str) -> DeployedFunction:
    """Return the function; raise ApiError where there is none."""
    from moto.awslambda.exceptions import LambdaClientError
    from moto.awslambda.utils import get_backend  # the yard's needs no Docker

    try:
        found = get_backend(ACCOUNT, region).get_function(name_or_arn, qualifier)
    except LambdaClientError as error:
        message = f"Function not found: {_arn(name_or_arn, region)}"
        raise ApiError("ResourceNotFoundException", message, status=404) from error
    return _decoded(found, region)


def refuse(function: DeployedFunction) -> None:
    """Raise ApiError by name for a function that the yard cannot run."""
    if reason := refusal(function.runtime, bool(function.layers)):
        raise not_emulated("lambda", "Invoke", function.name, reason=reason)
    if not function.code:
        raise not_emulated("lambda", "Invoke", function.name, reason="its code is not in the yard's S3")


def refusal(runtime: str, has_layers: bool) -> str:
    """Say why functions of this kind do not run here; "" where they do."""
    if not runtime.startswith(PYTHON):
        return f"it runs functions of Python, and this one's runtime is {runtime or 'its own image'}"
    return "it mounts no layers" if has_layers else ""


def _arn(name_or_arn: str, region: str) -> str:
    if name_or_arn.startswith("arn:"):
        return name_or_arn
    return f"arn:aws:lambda:{region}:{ACCOUNT}:function:{name_or_arn}"


def _decoded(found: Any, region: str) -> DeployedFunction:
    subnets = (found._vpc_config or {}).get("SubnetIds") or [""]
    return DeployedFunction(
        name=str(found.function_name),
        arn=str(found.function_arn),
        version=str(found.version),
        region=region,
        runtime=str(found.run_time or ""),
        handler=str(found.handler or ""),
        role=str(found.role),
        timeout_s=int(found.timeout),
        memory_mib=int(found.memory_size),
        variables={str(name): str(value) for name, value in (found.environment_vars or {}).items()},
        code=bytes(getattr(found, "code_bytes", b"") or b""),
        layers=tuple(str(layer["Arn"]) for layer in found.layers or ()),
        subnet=str(subnets[0]),
    )
