"""The job definition of an image that somebody named: the deployed one with another image. Pure.

Batch takes no image with a multi-node job (API Reference, ContainerOverrides), only with its definition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from slipway.jobs.words.names import TARGET_TAG
from slipway.jobs.words.targets import BatchTarget

# What DescribeJobDefinitions answers and RegisterJobDefinition takes.
_KEPT = ("type", "parameters", "nodeProperties", "retryStrategy", "timeout", "propagateTags")
_DIGEST_LENGTH = 12


def own_definition(deployed: Mapping[str, Any], image: str, target: BatchTarget) -> dict[str, Any]:
    """Return a RegisterJobDefinition; its name says what is in it, so that there is one for each image."""
    kept = {name: deployed[name] for name in _KEPT if name in deployed}
    nodes = kept["nodeProperties"]
    groups = [
        {**group, "container": {**group["container"], "image": image}}
        for group in nodes["nodeRangeProperties"]
    ]
    content = {
        **kept,
        "nodeProperties": {**nodes, "nodeRangeProperties": groups},
        "tags": {TARGET_TAG: target.name},
    }
    digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]
    return {"jobDefinitionName": f"{target.name}-image-{digest}", **content}
