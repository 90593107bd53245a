"""ECS's list of clusters, in which moto goes on to show those that were deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT


def call(_operation: str, _parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    from moto.ecs.models import ecs_backends

    clusters = ecs_backends[ACCOUNT][region].clusters.values()
    return {"clusterArns": [cluster.arn for cluster in clusters if cluster.status == "ACTIVE"]}
