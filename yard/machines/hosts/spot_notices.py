"""The notices that EC2 has given to Spot instances, as their metadata shows them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

_ends_at: dict[str, datetime] = {}  # by the id of the instance


def give(instance_id: str, ends_at: datetime) -> None:
    _ends_at[instance_id] = ends_at


def of(instance_id: str) -> datetime | None:
    return _ends_at.get(instance_id)


def metadata(instance_id: str) -> dict[str, Any]:
    """Return what stands under meta-data/spot; nothing before there is a notice."""
    ends_at = _ends_at.get(instance_id)
    if ends_at is None:
        return {}
    moment = ends_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "instance-action": json.dumps({"action": "terminate", "time": moment}),
        "termination-time": moment,
    }


def reset() -> None:
    _ends_at.clear()
