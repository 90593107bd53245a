"""Refuses what AWS Batch refuses although its model allows it. To add a limit: a line of LIMITS.

Sources: service_limits, job_timeouts and multi-node-parallel-jobs of its user guide, and its API reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from slipway.yard.gateway.protocols import Call
from slipway.yard.services.refusals.table import values_at

NAME = r"^[a-zA-Z0-9_-]{1,128}$"
HIGHEST_NODE_COUNT = 1000
KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit for the value at `path` ([] means each item): its pattern, range or number of items."""

    path: str
    pattern: str = ""
    low: int | None = None
    high: int | None = None
    items: tuple[int, int] | None = None
    one_of: tuple[str, ...] = ()


_RETRY = (
    Limit(path="retryStrategy.attempts", low=1, high=10),
    Limit(path="retryStrategy.evaluateOnExit", items=(0, 5)),
    Limit(path="timeout.attemptDurationSeconds", low=60),
)
_QUEUE = (
    Limit(path="computeEnvironmentOrder", items=(0, 3)),
    Limit(path="jobStateTimeLimitActions[].maxTimeSeconds", low=600, high=86_400),
    Limit(path="jobStateTimeLimitActions[].action", one_of=("CANCEL",)),
    Limit(path="jobStateTimeLimitActions[].state", one_of=("RUNNABLE",)),
    # "Jobs stuck in RUNNABLE with undetermined root cause": no action can be configured for it.
    Limit(path="jobStateTimeLimitActions[].reason", pattern=r"(?!UNDETERMINED).+"),
)
LIMITS: Mapping[str, tuple[Limit, ...]] = {
    "CreateComputeEnvironment": (
        Limit(path="computeEnvironmentName", pattern=NAME),
        Limit(path="computeResources.securityGroupIds", items=(0, 5)),
    ),
    "UpdateComputeEnvironment": (Limit(path="computeResources.securityGroupIds", items=(0, 5)),),
    "CreateJobQueue": (Limit(path="jobQueueName", pattern=NAME), *_QUEUE),
    "UpdateJobQueue": _QUEUE,
    "RegisterJobDefinition": (
        Limit(path="jobDefinitionName", pattern=NAME),
        *_RETRY,
        Limit(path="nodeProperties.numNodes", low=1, high=HIGHEST_NODE_COUNT),
        Limit(path="nodeProperties.nodeRangeProperties", items=(1, 5)),
    ),
    "SubmitJob": (
        Limit(path="jobName", pattern=NAME),
        *_RETRY,
        Limit(path="arrayProperties.size", low=2, high=10_000),
        Limit(path="dependsOn", items=(0, 20)),
        Limit(path="nodeOverrides.numNodes", low=1, high=HIGHEST_NODE_COUNT),
    ),
    "DescribeJobs": (Limit(path="jobs", items=(0, 100)),),
}
LARGEST_REQUEST_BYTES: Mapping[str, int] = {"SubmitJob": 30 * KIB, "RegisterJobDefinition": 24 * KIB}


def problems(call: Call) -> Iterator[str]:
    parameters = call.parameters or {}
    for limit in LIMITS.get(call.operation, ()):
        for path, value in values_at(parameters, limit.path):
            yield from (f"Value '{value}' at '{path}' {why}" for why in _against(limit, value))
    largest = LARGEST_REQUEST_BYTES.get(call.operation)
    if largest and len(call.body) > largest:
        yield f"the request has {len(call.body)} bytes; {call.operation} takes at most {largest}"
    if call.operation == "RegisterJobDefinition":
        kind, has_nodes = parameters.get("type"), "nodeProperties" in parameters
        if (kind == "multinode") != has_nodes:
            yield f"type is '{kind}': nodeProperties go with 'multinode', and with nothing else"
        yield from _problems_of_nodes(parameters.get("nodeProperties"))


def _against(limit: Limit, value: Any) -> Iterator[str]:
    failed = "failed to satisfy constraint:"
    if limit.pattern and not re.fullmatch(limit.pattern, value):
        yield f"{failed} Member must satisfy regular expression pattern: {limit.pattern}"
    if limit.low is not None and value < limit.low:
        yield f"{failed} Member must have value greater than or equal to {limit.low}"
    if limit.high is not None and value > limit.high:
        yield f"{failed} Member must have value less than or equal to {limit.high}"
    if limit.items and not limit.items[0] <= len(value) <= limit.items[1]:
        least, most = limit.items
        yield f"{failed} Member must have from {least} to {most} items, and has {len(value)}"
    if limit.one_of and value not in limit.one_of:
        yield f"{failed} Member must be one of {', '.join(limit.one_of)}"


def _problems_of_nodes(properties: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield problems of the node ranges: they must cover all nodes, and may only be nested, not overlap."""
    if properties is None:
        return
    count, main = properties["numNodes"], properties["mainNode"]
    if not 0 <= main < count:
        yield f"mainNode is {main}; with numNodes {count} it is from 0 to {count - 1}"
    ranges = {}
    for group in properties["nodeRangeProperties"]:
        text = group["targetNodes"]
        ranges[text] = _range(text, count)
        if ranges[text] is None:
            yield f"targetNodes '{text}' is no range within nodes 0 to {count - 1}; write 0: for all of them"
    known = {text: nodes for text, nodes in ranges.items() if nodes is not None}
    missing = set(range(count)) - {node for nodes in known.values() for node in nodes}
    if missing and len(known) == len(ranges):
        yield f"no range of nodeRangeProperties holds node {min(missing)}; they must cover 0 to {count - 1}"
    for (text, nodes), (other_text, other) in combinations(known.items(), 2):
        shared = set(nodes) & set(other)
        if shared and shared not in (set(nodes), set(other)):
            yield f"ranges '{text}' and '{other_text}' share node {min(shared)}; neither holds the other"
    # API reference, ContainerProperties: all node groups of a multi-node job use the same instance type.
    groups = properties["nodeRangeProperties"]
    types = {group.get("container", {}).get("instanceType") for group in groups}
    types |= {name for group in groups for name in group.get("instanceTypes", ())}
    if len(named := sorted(types - {None})) > 1:
        yield f"node groups use the instance types {', '.join(named)}; all groups of a job must use one"


def _range(text: str, count: int) -> range | None:
    """Parse `2:4`, `2:`, `:4` or `2`; None if it is no range."""
    found = re.fullmatch(r"(\d*)(:?)(\d*)", text)
    if not found or text in ("", ":"):
        return None
    first = int(found[1] or 0)
    last = int(found[3]) if found[3] else (count - 1 if found[2] else first)
    return range(first, last + 1) if first <= last < count else None
