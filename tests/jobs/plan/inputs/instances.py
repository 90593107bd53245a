"""Small instances of the shared format, for tests to change."""

from __future__ import annotations

from typing import Any

from slipway.jobs.plan.inputs.files import Fields, decode_plan_file
from slipway.jobs.plan.inputs.planning import plan
from slipway.jobs.plan.search.model import Plan

Instance = dict[str, Any]
QUICK = 0.5  # seconds of search


def mode(devices: Any = 1, seconds: Any = 100, type_name: str = "p4d") -> Instance:
    return {"technique": "ddp", "type": type_name, "devices": devices, "seconds": seconds}


def job(name: str = "a", *modes: Instance, **fields: Any) -> Instance:
    return {"name": name, "steps": 10, "modes": list(modes) or [mode(), mode(2, 60)], **fields}


def pool(**fields: Any) -> Instance:
    return {"type": "p4d", "nodes": 2, "devices_per_node": 4, "price_per_hour": 36.0, **fields}


def instance(*jobs: Instance, **fields: Any) -> Instance:
    return {"pools": [pool()], "jobs": list(jobs) or [job()], **fields}


def planned(found: Instance, **options: Any) -> Plan:
    inputs = decode_plan_file(Fields(where="", values=found), "test")
    return plan(inputs.jobs, inputs.pools, time_limit=QUICK, **options)
