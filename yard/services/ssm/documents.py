"""SSM's Command documents: checks their parameters, and returns the steps that a host should run.

Schema: Systems Manager user guide, "Data elements and parameters". To add a kind of step: a line of
_STEPS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.machines.hosts import host_store
from slipway.yard.machines.hosts.host_processes import HostCommand
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.machines.hosts.metadata import session_of
from slipway.yard.moto_backends import moto_backend, moto_errors
from slipway.yard.permissions import roles
from slipway.yard.permissions.calls.asked import ActionNeed, arn

EXECUTION_TIMEOUT_S = 3600  # the default of aws:runShellScript
_PLACE = re.compile(r"\{\{\s*([\w.:-]+)\s*\}\}")
# AWS-RunShellScript, the only one of Amazon's documents that the yard has.
RUN_SHELL_SCRIPT: Mapping[str, Any] = {
    "schemaVersion": "2.2",
    "parameters": {
        "commands": {"type": "StringList"},
        "workingDirectory": {"type": "String", "default": ""},
        "executionTimeout": {"type": "String", "default": "3600", "allowedPattern": r"[1-9]\d{0,5}"},
    },
    "mainSteps": [
        {
            "action": "aws:runShellScript",
            "name": "runShellScript",
            "inputs": {
                "runCommand": "{{ commands }}",
                "workingDirectory": "{{ workingDirectory }}",
                "timeoutSeconds": "{{ executionTimeout }}",
            },
        }
    ],
}
OWN: Mapping[str, Mapping[str, Any]] = {"AWS-RunShellScript": RUN_SHELL_SCRIPT}

Values = Mapping[str, Any]


def deployed(name: str, version: str | None, region: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the version and the content of a document as it is deployed now, if it is."""
    wanted = None if version in ("", "$DEFAULT") else version  # moto itself knows $LATEST
    try:
        found = moto_backend("ssm", region).get_document(
            name=name, document_version=wanted, version_name=None, document_format="JSON"
        )
    except moto_errors():
        return None
    content = found["Content"]
    return str(found["DocumentVersion"]), json.loads(content) if isinstance(content, str) else content


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentStep:
    name: str
    action: str
    run: HostCommand
    timeout_s: float


def steps(document: Mapping[str, Any], given: Mapping[str, Sequence[str]]) -> list[DocumentStep]:
    """List the steps to run; raise ApiError for parameters that the document does not allow."""
    if (version := document.get("schemaVersion")) not in ("2.0", "2.2"):
        raise ApiError(
            "InvalidDocument", f"schemaVersion is {version!r}; the yard runs documents of 2.2 and 2.0"
        )
    declared = document.get("parameters") or {}
    values = checked_values(declared, given)
    environment = {
        f"SSM_{name}": str(value)
        for name, value in values.items()
        if declared[name].get("interpolationType") == "ENV_VAR"
    }
    found = []
    for step in document["mainSteps"]:
        build = _STEPS.get(step["action"])
        if build is None:
            raise ApiError("InvalidDocument", f"the yard runs {', '.join(_STEPS)}, not {step['action']}")
        found.append(build(step, values, environment))
    return found


def checked_values(declared: Mapping[str, Any], given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the value of each parameter; raise ApiError for what the document does not allow."""
    if unknown := sorted(set(given) - set(declared)):
        raise _invalid(f"the document has no parameter {', '.join(unknown)}")
    return {name: _value(name, rule, given.get(name)) for name, rule in declared.items()}


def _value(name: str, rule: Mapping[str, Any], given: Sequence[str] | None) -> Any:
    if given is None:
        if "default" not in rule:
            raise _invalid(f"the parameter {name} needs a value")
        return rule["default"]
    is_list = rule.get("type") == "StringList"
    if not is_list and len(given) != 1:
        raise _invalid(f"the parameter {name} takes one value, and not {len(given)}")
    for text in given:
        # `fullmatch`, since Python's $ allows a line break at the end.
        pattern, allowed = rule.get("allowedPattern"), rule.get("allowedValues")
        if pattern and not re.fullmatch(pattern, text):
            raise _invalid(f"the value {text!r} of the parameter {name} does not match {pattern}")
        if allowed and text not in map(str, allowed):
            raise _invalid(
                f"the parameter {name} is {text!r}; it must be one of {', '.join(map(str, allowed))}"
            )
        least, most = rule.get("minChars", 0), rule.get("maxChars", "any number")
        if len(text) < int(least) or ("maxChars" in rule and len(text) > int(most)):
            raise _invalid(f"the parameter {name} has {len(text)} characters; allowed are {least} to {most}")
    return list(given) if is_list else given[0]


def _invalid(problem: str) -> ApiError:
    return ApiError("InvalidParameters", problem)


def _shell_script(step: Mapping[str, Any], values: Values, environment: Mapping[str, str]) -> DocumentStep:
    inputs = step["inputs"]
    lines = _expanded(inputs["runCommand"], values)
    text = "\n".join(lines if isinstance(lines, list) else [lines])
    folder = str(_expanded(inputs.get("workingDirectory", ""), values))
    timeout = _expanded(inputs.get("timeoutSeconds", EXECUTION_TIMEOUT_S), values)
    # The agent runs the script as a file, so its first line may name the interpreter.
    first = text.partition("\n")[0]
    interpreter = tuple(first[2:].split()) if first.startswith("#!") else ("/bin/sh",)
    argv = (*interpreter, "-c", text)
    if folder:
        argv = ("/usr/bin/env", f"--chdir={folder}", *argv)
    return DocumentStep(
        name=str(step["name"]),
        action=step["action"],
        run=HostCommand(argv=argv, environment=environment),
        timeout_s=float(timeout),
    )


_STEPS: Mapping[str, Callable[[Mapping[str, Any], Values, Mapping[str, str]], DocumentStep]] = {
    "aws:runShellScript": _shell_script,
}


def _expanded(template: Any, values: Values) -> Any:
    """Replace parameters as the agent does: within text by text, and alone by any value, such as a list."""
    if isinstance(template, list):
        found = [_expanded(item, values) for item in template]
        return [line for each in found for line in (each if isinstance(each, list) else [each])]
    if not isinstance(template, str):
        return template
    whole = _PLACE.fullmatch(template.strip())
    if whole and isinstance(values.get(whole[1]), list):
        return values[whole[1]]
    return _PLACE.sub(lambda place: _as_text(values, place), template)


def _as_text(values: Values, place: re.Match[str]) -> str:
    if place[1] not in values:
        return place[0]
    value = values[place[1]]
    return value if isinstance(value, str) else json.dumps(value)


# What a host's Systems Manager agent, which the yard imitates, may do with the host's role.
# A host without a role is managed, too, as in an account with Default Host Management Configuration.
# Source: Systems Manager user guide, "ec2messages, ssmmessages, and other API operations"; "Configuring
# Amazon CloudWatch Logs for Run Command".
_HAS_SYSTEM = ("booting", "running", "failed")  # states of a host; "failed" only unless it is down
_CHANNELS = ("CreateControlChannel", "OpenControlChannel", "CreateDataChannel", "OpenDataChannel")


def is_managed(host: Host) -> bool:
    """Return True if the host's agent could register and wait for commands.

    The agent runs even if another service of the system failed.
    """
    instance = host.instance
    if instance.is_service or host.state not in _HAS_SYSTEM or host_store.is_down(host):
        return False
    instance_arn = arn("ec2", instance.region, f"instance/{instance.id}")
    registration = ActionNeed(action="ssm:UpdateInstanceInformation", resource=instance_arn)
    channels = (ActionNeed(action=f"ssmmessages:{act}") for act in _CHANNELS)
    return not _refused(host, (registration, *channels))


def may_log(host: Host, group: str, stream: str) -> bool:
    """Return True if the agent may write output to the stream; it first looks up group and stream."""
    region = host.instance.region
    logs = arn("logs", region, f"log-group:{group}:log-stream:")
    groups = arn("logs", region, "log-group::log-stream:")
    needs = (
        ActionNeed(action="logs:DescribeLogGroups", resource=groups),
        ActionNeed(action="logs:DescribeLogStreams", resource=logs),
        ActionNeed(action="logs:CreateLogStream", resource=logs + stream),
        ActionNeed(action="logs:PutLogEvents", resource=logs + stream),
    )
    return not _refused(host, needs)


def _refused(host: Host, needs: Iterable[ActionNeed]) -> bool:
    if not host.instance.role:
        return False
    try:
        return bool(roles.refused(session_of(host.instance), host.instance.region, needs))
    except ApiError:  # EC2 may not assume the role, so the agent has no credentials
        return True
