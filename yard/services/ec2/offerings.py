"""Where instance types are offered: DescribeInstanceTypeOfferings takes wildcards, as filters of EC2 do."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def show() -> None:
    """Let moto compare so, for good, since its classes outlive a reset."""
    from moto.ec2.models.instance_types import InstanceTypeOfferingBackend

    plain = InstanceTypeOfferingBackend.matches_filters

    def matches(self: Any, offering: dict[str, Any], filters: Any, location_type: str) -> bool:
        types = filters.get("instance-type")
        rest = {name: values for name, values in filters.items() if name != "instance-type"}
        return _is_one(offering["InstanceType"], types) and bool(plain(self, offering, rest, location_type))

    InstanceTypeOfferingBackend.matches_filters = matches


def _is_one(name: str, patterns: list[str] | None) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)
