"""What DescribeInstanceTypes says of accelerators and network. A new group of devices is one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_GROUPS = (
    ("GpuInfo", "Gpus"),
    ("NeuronInfo", "NeuronDevices"),
    ("InferenceAcceleratorInfo", "Accelerators"),
)


def devices_of(kind: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the accelerators of a type; AWS names those of inf1 and inf2 in two groups, once too often."""
    for info, devices in _GROUPS:
        if found := kind.get(info, {}).get(devices, []):
            return list(found)
    return []


def network_gbps(kind: Mapping[str, Any]) -> float | None:
    """Read the peak from AWS's words: those of cards add up to more where each can carry it all (g6e)."""
    spoken = re.fullmatch(
        r"(?:(\d+)x )?(?:Up to )?([\d.]+) Gigabit", kind["NetworkInfo"]["NetworkPerformance"]
    )
    return int(spoken[1] or 1) * float(spoken[2]) if spoken else None
