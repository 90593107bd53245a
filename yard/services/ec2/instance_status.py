"""EC2's calls about instances that are hosts here, of which moto knows nothing: status, console, reboot.

EC2's status check asks if a system answers, not if its services run: a host that boots systemd passes even if
its user data failed. A host that only imitates a boot fails, and its console says why.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.machines.hosts import host_store, reconciler
from slipway.yard.moto_backends import moto_backend

Parameters = Mapping[str, Any]

# State of a host -> EC2's results of the check (user guide, "Status checks for Amazon EC2 instances").
_CHECKS = {
    "starting": ("initializing", "initializing"),
    "booting": ("initializing", "initializing"),
    "failed": ("impaired", "failed"),
    "dead": ("insufficient-data", "insufficient-data"),  # its group will replace it
}
_PASSED = ("ok", "passed")


def _describe_status(parameters: Parameters, region: str) -> dict[str, Any]:
    backend = moto_backend("ec2", region)
    wanted = parameters.get("InstanceIds")
    filters = {condition["Name"]: condition["Values"] for condition in parameters.get("Filters", ())}
    found = backend.describe_instance_status(
        wanted, bool(parameters.get("IncludeAllInstances")), filters or None
    )
    statuses = []
    for instance in found:
        host, own = host_store.hosts.get(instance.id), _PASSED
        if host and (host.state != "failed" or host_store.is_down(host)):  # one with mere complaints passes
            own = _CHECKS.get(host.state, _PASSED)
        status = {
            "AvailabilityZone": instance.availability_zone,
            "InstanceId": instance.id,
            "InstanceState": {"Code": instance.state_code, "Name": instance.state},
            "InstanceStatus": _checked(*own),
            "SystemStatus": _checked(*_PASSED),
        }
        statuses.append(status)
    return {"InstanceStatuses": statuses}


def _checked(summary: str, detail: str) -> dict[str, Any]:
    return {"Status": summary, "Details": [{"Name": "reachability", "Status": detail}]}


def _console(parameters: Parameters, region: str) -> dict[str, Any]:
    instance = moto_backend("ec2", region).get_instance(parameters["InstanceId"])
    host = host_store.hosts.get(instance.id)
    # The console, and at its end the reason of a failure that only the yard knows.
    said = (host.console.text + (host.why if host_store.is_down(host) else "")) if host else ""
    return {
        "InstanceId": instance.id,
        "Output": base64.b64encode(said.encode()).decode(),
        "Timestamp": datetime.now(UTC),
    }


def _reboot(parameters: Parameters, region: str) -> dict[str, Any]:
    """Ask each system to restart; EC2 does not report the outcome."""
    recorded = moto_backend("ec2", region).get_multi_instances_by_id(parameters["InstanceIds"])
    for instance in recorded:
        if instance.state != "running":
            raise ApiError(
                "IncorrectInstanceState",
                f"This instance '{instance.id}' is not in a state from which it can be rebooted.",
            )
    for instance in recorded:
        if host := host_store.hosts.get(instance.id):
            try:
                reconciler.reboot(host)
            except ValueError as error:
                raise ApiError("UnsupportedOperation", str(error)) from error
    return {}


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "DescribeInstanceStatus": _describe_status,
    "GetConsoleOutput": _console,
    "RebootInstances": _reboot,
}
