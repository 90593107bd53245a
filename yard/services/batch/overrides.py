"""Merges a job definition with SubmitJob's overrides into what each node runs, as AWS Batch does.

Sources: the API reference's NodeOverrides, NodePropertyOverride, ContainerOverrides, and the user guide on
multi-node jobs and on job definition parameters. To let another member be overridden: a name in _container,
or a line there with _by_key if its value is a list.

Overrides of multi-node jobs are merged twice: node_properties merges those that name exactly a range of the
definition, which DescribeJobs shows; container_of_node merges all that hold the node, which then runs so.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from slipway.yard.errors import client_exception

Container = dict[str, Any]
Properties = Mapping[str, Any]
_MOST_CHARACTERS = 8192  # with those of the JSON (ECS API reference, RunTask, overrides)


def node_properties(definition: Properties, submit: Properties) -> dict[str, Any]:
    """Return nodeProperties as DescribeJobs shows it, with overrides that name exactly one of its ranges."""
    found: dict[str, Any] = copy.deepcopy(dict(definition["nodeProperties"]))
    overrides = submit.get("nodeOverrides") or {}
    if count := overrides.get("numNodes"):
        ranges = [group["targetNodes"] for group in found["nodeRangeProperties"]]
        if not any(text.endswith(":") for text in ranges):
            raise client_exception(
                "numNodes can be overridden only if a node range has no upper end, such as '0:';"
                f" the ranges are {ranges}"
            )
        needed = max(found["mainNode"], *(int(text.partition(":")[0] or 0) for text in ranges))
        if count <= needed:
            raise client_exception(f"numNodes {count} leaves out node {needed}, which the definition names")
        found["numNodes"] = count
    for group in found["nodeRangeProperties"]:
        for override in overrides.get("nodePropertyOverrides", ()):
            if _bounds(override["targetNodes"], found["numNodes"]) == _bounds(
                group["targetNodes"], found["numNodes"]
            ):
                group["container"] = _container(group["container"], override.get("containerOverrides", {}))
    return found


def container_of_node(properties: Properties, submit: Properties, node: int) -> Container:
    """Return the node's container, of the narrowest range that holds it, with the overrides for the node.

    `properties` comes from node_properties; overrides of other ranges are merged only here.
    """
    count = properties["numNodes"]
    holding = [
        group for group in properties["nodeRangeProperties"] if _holds(group["targetNodes"], node, count)
    ]
    container: Container = min(holding, key=lambda group: _width(group["targetNodes"], count))["container"]
    for override in (submit.get("nodeOverrides") or {}).get("nodePropertyOverrides", ()):
        if _holds(override["targetNodes"], node, count):
            container = _container(container, override.get("containerOverrides", {}))
    return container


def is_too_long(submit: Properties) -> bool:
    """Return True for a command and environment that ECS does not take of Batch."""
    nodes = (submit.get("nodeOverrides") or {}).get("nodePropertyOverrides", ())
    given = [submit.get("containerOverrides"), *(each.get("containerOverrides") for each in nodes)]
    return any(len(json.dumps(each)) > _MOST_CHARACTERS for each in given)


def single_container(definition: Properties, submit: Properties) -> Container:
    return _container(definition["containerProperties"], submit.get("containerOverrides") or {})


def command(container: Properties, definition: Properties, submit: Properties) -> list[str]:
    """Return the command with each `Ref::name` replaced by the parameter of that name, if any."""
    parameters = {**definition.get("parameters", {}), **(submit.get("parameters") or {})}
    words = container.get("command", [])
    return [parameters.get(word[5:], word) if word.startswith("Ref::") else word for word in words]


def resource(container: Properties, kind: str, older_member: str) -> int:
    for item in container.get("resourceRequirements", ()):
        if item["type"] == kind:
            return int(float(item["value"]))
    return int(container.get(older_member, 0))


def _container(container: Properties, override: Properties) -> Container:
    merged = copy.deepcopy(dict(container))
    for member in ("command", "instanceType", "vcpus", "memory"):
        if override.get(member):
            merged[member] = override[member]
    merged["environment"] = _by_key(container, override, "environment", "name")
    merged["resourceRequirements"] = _by_key(container, override, "resourceRequirements", "type")
    return merged


def _by_key(container: Properties, override: Properties, member: str, key: str) -> list[dict[str, str]]:
    items: Sequence[dict[str, str]] = [*container.get(member, ()), *override.get(member, ())]
    return list({item[key]: item for item in items}.values())


def _bounds(text: str, count: int) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    first = int(low or 0)
    return first, int(high) if high else (count - 1 if colon else first)


def _holds(text: str, node: int, count: int) -> bool:
    first, last = _bounds(text, count)
    return first <= node <= last


def _width(text: str, count: int) -> int:
    first, last = _bounds(text, count)
    return last - first
