"""Batch's job definitions, kept here because moto drops the nodes of multi-node ones.

Batch fills in the lists of _LISTS that a container lacks.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import client_exception
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.recorded import paged

Parameters = Mapping[str, Any]
Definition = dict[str, Any]

_definitions: dict[tuple[str, str], list[Definition]] = {}  # (region, name) -> revisions
_lock = threading.Lock()

_LISTS = ("command", "environment", "mountPoints", "resourceRequirements", "secrets", "ulimits", "volumes")


def reset() -> None:
    _definitions.clear()


def find(wanted: str, region: str) -> Definition | None:
    """Find a definition by ARN, by name:revision, or by name, which means the newest active one."""
    name, _, revision = wanted.rpartition("/")[2].partition(":")
    with _lock:
        revisions = _definitions.get((region, name), [])
        if revision:
            found = [definition for definition in revisions if str(definition["revision"]) == revision]
        else:
            found = [definition for definition in revisions if definition["status"] == "ACTIVE"]
        return copy.deepcopy(found[-1]) if found else None


def _register(parameters: Parameters, region: str) -> dict[str, Any]:
    name = parameters["jobDefinitionName"]
    definition: Definition = copy.deepcopy(
        {"parameters": {}, "containerOrchestrationType": "ECS", **parameters}
    )
    definition.pop("tags", None)
    for rule in definition.get("retryStrategy", {}).get("evaluateOnExit", ()):
        rule["action"] = rule["action"].lower()  # as Batch returns it
    groups = definition.get("nodeProperties", {}).get("nodeRangeProperties", ())
    containers = [definition["containerProperties"]] if "containerProperties" in definition else []
    containers += [group["container"] for group in groups if "container" in group]
    for container in containers:
        for member in _LISTS:
            container.setdefault(member, [])
        given = {item["type"] for item in container["resourceRequirements"]}
        for kind, older_member in (("VCPU", "vcpus"), ("MEMORY", "memory")):
            if kind not in given and older_member not in container:
                raise client_exception(f"Container properties must contain {older_member}")
    with _lock:
        revisions = _definitions.setdefault((region, name), [])
        number = len(revisions) + 1
        arn = f"arn:aws:batch:{region}:{ACCOUNT}:job-definition/{name}:{number}"
        revisions.append({**definition, "revision": number, "jobDefinitionArn": arn, "status": "ACTIVE"})
    moto_backend("batch", region).tag_resource(arn, parameters.get("tags") or {})
    return {"jobDefinitionName": name, "jobDefinitionArn": arn, "revision": number}


def _describe(parameters: Parameters, region: str) -> dict[str, Any]:
    wanted = parameters.get("jobDefinitions")
    if wanted:
        found = [definition for definition in (find(name, region) for name in wanted) if definition]
    else:
        name = parameters.get("jobDefinitionName", "").rpartition("/")[2]
        with _lock:
            found = [
                copy.deepcopy(definition)
                for (where, _name), revisions in _definitions.items()
                for definition in revisions
                if where == region and name in ("", definition["jobDefinitionName"])
            ]
    status, tags_of = parameters.get("status"), moto_backend("batch", region).list_tags_for_resource
    shown = [
        {**definition, "tags": tags_of(definition["jobDefinitionArn"])}
        for definition in found
        if status in (None, definition["status"])
    ]
    return paged("jobDefinitions", shown, parameters)


def _deregister(parameters: Parameters, region: str) -> dict[str, Any]:
    name, _, revision = parameters["jobDefinition"].rpartition("/")[2].partition(":")
    with _lock:
        for definition in _definitions.get((region, name), []):
            if str(definition["revision"]) == revision:
                definition["status"] = "INACTIVE"
                return {}
    raise client_exception(f"Job definition {parameters['jobDefinition']} does not exist")


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "DeregisterJobDefinition": _deregister,
    "DescribeJobDefinitions": _describe,
    "RegisterJobDefinition": _register,
}
