"""EC2's status checks and console of instances that are hosts here: moto knows nothing of how they boot.

A host that failed does not pass the check of its instance, and its console says why.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.machines.hosts import host_store

Parameters = Mapping[str, Any]

# State of a host -> EC2's words for the check (user guide, "Status checks for Amazon EC2 instances").
_CHECKS = {
    "starting": ("initializing", "initializing"),
    "booting": ("initializing", "initializing"),
    "failed": ("impaired", "failed"),
    "dead": ("insufficient-data", "insufficient-data"),  # its group starts another soon
}
_PASSED = ("ok", "passed")


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    return _OPERATIONS[operation](parameters, region)


def _describe_status(parameters: Parameters, region: str) -> dict[str, Any]:
    backend = _ec2(region)
    wanted = parameters.get("InstanceIds")
    filters = {each["Name"]: each["Values"] for each in parameters.get("Filters", ())}
    found = backend.describe_instance_status(
        wanted, bool(parameters.get("IncludeAllInstances")), filters or None
    )
    return {"InstanceStatuses": [_status(instance) for instance in found]}


def _status(instance: Any) -> dict[str, Any]:
    host = host_store.hosts.get(instance.id)
    summary, detail = _CHECKS.get(host.state, _PASSED) if host else _PASSED
    return {
        "AvailabilityZone": instance.availability_zone,
        "InstanceId": instance.id,
        "InstanceState": {"Code": instance.state_code, "Name": instance.state},
        "InstanceStatus": _checked(summary, detail),
        "SystemStatus": _checked(*_PASSED),
    }


def _checked(summary: str, detail: str) -> dict[str, Any]:
    return {"Status": summary, "Details": [{"Name": "reachability", "Status": detail}]}


def _console(parameters: Parameters, region: str) -> dict[str, Any]:
    instance = _ec2(region).get_instance(parameters["InstanceId"])
    host = host_store.hosts.get(instance.id)
    said = host.why if host else ""
    return {
        "InstanceId": instance.id,
        "Output": base64.b64encode(said.encode()).decode(),
        "Timestamp": datetime.now(UTC),
    }


def _ec2(region: str) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[ACCOUNT][region]


_OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "DescribeInstanceStatus": _describe_status,
    "GetConsoleOutput": _console,
}
