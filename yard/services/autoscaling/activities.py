"""Auto Scaling's activities: what it launched, and why a group has too few instances."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.machines.hosts import instances
from slipway.yard.services.recorded import page
from slipway.yard.services.service_quotas import quotas

RETRY_S = 3.0  # until a group without capacity is tried again; minutes on AWS
MOST_KEPT = 200  # of all groups; AWS forgets them after six weeks

_FAILED = "Launching EC2 instance failed."

_made: list[tuple[str, dict[str, Any]]] = []  # region and activity, the newest first


def reset() -> None:
    _made.clear()
    instances.groups_without_capacity.clear()


def record(group: Any, *, launched: int, refused: int, instance_type: str, market: str) -> None:
    """Remember the launch of so many instances, and that so many more were above the quota."""
    if launched:
        _add(group, "Successful", f"Launching {launched} new EC2 instances.", "")
    if refused:
        said = quotas.refusal(instance_type, group.region, market)
        _add(group, "Failed", "Launching a new EC2 instance.", f"{said} {_FAILED}")


def record_lack(group: Any, reason: str, launch: Callable[[Any], None]) -> None:
    """Remember that EC2 has no capacity, and let the group launch again after a while."""
    _add(group, "Failed", f"Launching a new EC2 instance.  Status Reason: {reason}", f"{reason} {_FAILED}")
    waiting = instances.groups_without_capacity
    if (name := (group.region, group.name)) not in waiting:
        waiting.add(name)
        timer = threading.Timer(RETRY_S, _try_again, [group, launch])
        timer.daemon = True
        timer.start()


def describe(parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    wanted = parameters.get("AutoScalingGroupName")
    found = [
        activity
        for where, activity in _made
        if where == region and wanted in (None, activity["AutoScalingGroupName"])
    ]
    asked = {"nextToken": parameters.get("NextToken"), "maxResults": parameters.get("MaxRecords")}
    shown, more = page(found, asked)
    return {"Activities": shown, **({"NextToken": more["nextToken"]} if more else {})}


def _try_again(group: Any, launch: Callable[[Any], None]) -> None:
    waiting, name = instances.groups_without_capacity, (group.region, group.name)
    if name in waiting:  # the yard was not reset
        waiting.discard(name)
        launch(group)


def _add(group: Any, status: str, description: str, message: str) -> None:
    now = datetime.now(UTC)
    activity = {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": group.name,
        "Description": description,
        "Cause": f"At {now:%Y-%m-%dT%H:%M:%SZ} an instance was started in response to a difference between "
        "desired and actual capacity.",
        "StartTime": now,
        "EndTime": now,
        "StatusCode": status,
        "Progress": 100,
        **({"StatusMessage": message} if message else {}),
    }
    _made.insert(0, (group.region, activity))
    del _made[MOST_KEPT:]
