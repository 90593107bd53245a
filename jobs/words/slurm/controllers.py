"""Sizes of AWS PCS's controller: how many nodes each has room for. None can change once it is deployed."""

from __future__ import annotations

from collections.abc import Mapping

# API reference of AWS PCS, CreateCluster, `size`; UpdateCluster takes none. The login node counts.
CONTROLLERS: Mapping[str, int] = {"small": 32, "medium": 512, "large": 2048}
LOGIN_NODES = 1


def smallest_controller(workers: int) -> str:
    """Return the smallest size with room for so many workers and the login node."""
    return next(size for size, nodes in CONTROLLERS.items() if workers + LOGIN_NODES <= nodes)


def most_workers(size: str) -> int:
    return CONTROLLERS[size] - LOGIN_NODES
