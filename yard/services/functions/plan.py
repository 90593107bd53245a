"""Decides which process and files an invocation has; the plan runs like that of a job with one node."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slipway.yard.endpoint import ACCOUNT, own_endpoint
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.machines.isolation.tiers import Tier
from slipway.yard.machines.settings import interpreter
from slipway.yard.permissions import keys
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.services.batch.attempt_processes import write_plan

TASK, RUNTIME = "/var/task", "/var/runtime"
ADDRESS = "10.0.0.10/16"
SHARED_MEMORY_MIB = 64
HANDLER = Path(str(files("slipway"))) / "yard/services/functions/inside/handler.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionInvocation:
    """One event for a function, and the session with which the function runs."""

    function: DeployedFunction
    event: bytes
    request_id: str
    stream: str  # in the function's log group
    session: RoleSession


def write(invocation: FunctionInvocation, tier: Tier, folder: Path) -> Path:
    """Write the plan that batch/isolation/cluster.py reads, and the files that it names; return it."""
    for name in ("tmp", "task", "runtime"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    (folder / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="utf-8")
    with zipfile.ZipFile(io.BytesIO(invocation.function.code)) as archive:
        archive.extractall(folder / "task")
    task = TASK if tier.isolated else str(folder / "task")
    runtime = RUNTIME if tier.isolated else str(folder / "runtime")
    (folder / "runtime" / "event.json").write_bytes(invocation.event)
    request = json.dumps(_request(invocation, task))
    (folder / "runtime" / "request.json").write_text(request, encoding="utf-8")
    node = {
        "index": 0,
        "folder": str(folder),
        "cwd": task,
        "hostname": "lambda",
        "address": ADDRESS,
        "argv": [interpreter(), str(HANDLER.resolve()), runtime],
        "environment": _environment(invocation, task),
        "mounts": [(str(folder / "task"), TASK), (str(folder / "runtime"), RUNTIME)],
        "shared_memory_mib": SHARED_MEMORY_MIB,
        "init": False,
        "link": {},
        "launch_seconds": 0,
    }
    return write_plan(folder, tier, [node])


def result(folder: Path) -> Mapping[str, str] | None:
    """Return the handler's result; None if its process ended without one."""
    try:
        said: Mapping[str, str] = json.loads((folder / "runtime" / "result.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return said


def _request(invocation: FunctionInvocation, task: str) -> dict[str, Any]:
    function = invocation.function
    return {
        "handler": function.handler,
        "task": task,
        "yard": urlsplit(own_endpoint()).netloc,
        "timeout_s": function.timeout_s,
        "context": {
            "function_name": function.name,
            "function_version": function.version,
            "invoked_function_arn": function.arn,
            "memory_limit_in_mb": str(function.memory_mib),
            "aws_request_id": invocation.request_id,
            "log_group_name": function.log_group,
            "log_stream_name": invocation.stream,
        },
    }


def _environment(invocation: FunctionInvocation, task: str) -> dict[str, str]:
    """Return Lambda's variables ("Defined runtime environment variables"); reserved ones take precedence."""
    function = invocation.function
    return {
        "PATH": os.pathsep.join([str(Path(interpreter()).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        **function.variables,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "_HANDLER": function.handler,
        "AWS_REGION": function.region,
        "AWS_DEFAULT_REGION": function.region,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mib),
        "AWS_LAMBDA_FUNCTION_VERSION": function.version,
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": function.log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": invocation.stream,
        **keys.container_variables(invocation.session),
        "LAMBDA_TASK_ROOT": task,
        "LAMBDA_RUNTIME_DIR": str(HANDLER.parent),
    }


# A deployed function, read from moto, and reasons why the yard cannot run it.
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
    subnet: str  # one of its subnets; "" if it is in no VPC

    @property
    def log_group(self) -> str:
        return f"/aws/lambda/{self.name}"


def find(name_or_arn: str, qualifier: str | None, region: str) -> DeployedFunction:
    """Return the function; raise ApiError if there is none."""
    from moto.awslambda.exceptions import LambdaClientError
    from moto.awslambda.utils import get_backend  # the yard's backend needs no Docker

    try:
        found = get_backend(ACCOUNT, region).get_function(name_or_arn, qualifier)
    except LambdaClientError as error:
        arn = name_or_arn
        if not arn.startswith("arn:"):
            arn = f"arn:aws:lambda:{region}:{ACCOUNT}:function:{name_or_arn}"
        raise ApiError("ResourceNotFoundException", f"Function not found: {arn}", status=404) from error
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


def refuse(function: DeployedFunction) -> None:
    """Raise ApiError for a function that the yard cannot run."""
    if reason := refusal(function.runtime, bool(function.layers)):
        raise not_emulated("lambda", "Invoke", function.name, reason=reason)
    if not function.code:
        raise not_emulated("lambda", "Invoke", function.name, reason="its code is not in the yard's S3")


def refusal(runtime: str, has_layers: bool) -> str:
    """Return why functions of this kind do not run here; "" if they do."""
    if not runtime.startswith(PYTHON):
        return f"it runs functions of Python, and this one's runtime is {runtime or 'its own image'}"
    return "it mounts no layers" if has_layers else ""
