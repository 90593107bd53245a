"""Auto Scaling's activities: what it launched, and why a group has too few instances."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.services.recorded import page
from slipway.yard.services.service_quotas import quotas

MOST_KEPT = 200  # of all groups; AWS forgets them after six weeks

_made: list[tuple[str, dict[str, Any]]] = []  # region and activity, the newest first


def reset() -> None:
    _made.clear()


def record(group: Any, *, launched: int, refused: int, instance_type: str, market: str) -> None:
    """Remember the launch of so many instances, and that so many more were above the quota."""
    if launched:
        _add(group, "Successful", f"Launching {launched} new EC2 instances.", "")
    if refused:
        said = quotas.refusal(instance_type, group.region, market)
        _add(group, "Failed", "Launching a new EC2 instance.", f"{said} Launching EC2 instance failed.")


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
