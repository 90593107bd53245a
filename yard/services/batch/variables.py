"""The environment of a container, as AWS Batch sets it (user guide, job environment variables).

A variable of Batch is a line here. Of this machine's own environment only KEPT reach a job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.yard.gateway import keys
from slipway.yard.machines.settings import CHECKOUT, STAND_IN, interpreter
from slipway.yard.permissions.sessions import RoleSession

KEPT = ("PATH", "HOME", "LANG")  # compilers and ninja are found on PATH, their caches at HOME


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePosition:
    """Tells which container of its job this is."""

    job_id: str  # with #node or :index
    attempt: int
    queue: str
    environment: str
    region: str
    node: int | None = None
    nodes: int = 1
    main_node: int = 0
    main_address: str = ""
    array_index: int | None = None
    array_size: int = 0


def of_container(
    place: NodePosition, container: Mapping[str, Any], session: RoleSession | None, endpoint: str
) -> dict[str, str]:
    given = {item["name"]: item.get("value", "") for item in container.get("environment", ())}
    return {
        **_of_machine(),
        **given,
        **_of_aws(place.region, endpoint),
        **_of_role(session),
        **_of_batch(place),
        **STAND_IN,
    }


def _of_machine() -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    programs = [str(Path(interpreter()).parent), kept.get("PATH", os.defpath)]
    return {**kept, "PATH": os.pathsep.join(programs), "PYTHONPATH": str(CHECKOUT)}


def _of_aws(region: str, endpoint: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _of_role(session: RoleSession | None) -> dict[str, str]:
    """Return a key of the role, in place of the address at which ECS would give one out."""
    if session is None:
        return {}
    key = keys.issue(session=session)
    return {
        "AWS_ACCESS_KEY_ID": key.access_key_id,
        "AWS_SECRET_ACCESS_KEY": key.secret,
        "AWS_SESSION_TOKEN": key.token,
    }


def _of_batch(place: NodePosition) -> dict[str, str]:
    variables = {
        "AWS_BATCH_CE_NAME": place.environment,
        "AWS_BATCH_JOB_ATTEMPT": str(place.attempt),
        "AWS_BATCH_JOB_ID": place.job_id,
        "AWS_BATCH_JQ_NAME": place.queue,
    }
    if place.node is not None:
        variables |= {
            "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(place.main_node),
            "AWS_BATCH_JOB_NODE_INDEX": str(place.node),
            "AWS_BATCH_JOB_NUM_NODES": str(place.nodes),
        }
        if place.node != place.main_node:  # Batch tells the others only
            variables["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = place.main_address
    if place.array_index is not None:
        variables["AWS_BATCH_JOB_ARRAY_INDEX"] = str(place.array_index)
        variables["AWS_BATCH_JOB_ARRAY_SIZE"] = str(place.array_size)
    return variables
