"""ECS's list of clusters, in which moto goes on to show those that were deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.moto_backends import moto_backend


def call(_operation: str, _parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    clusters = moto_backend("ecs", region).clusters.values()
    return {"clusterArns": [cluster.arn for cluster in clusters if cluster.status == "ACTIVE"]}
