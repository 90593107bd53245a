"""Write and read a plan as JSON: the answer of `slipway plan make --json`, and the plan's file.

Besides the fields of the answer, the file has those of an input file, so that it can be planned again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from slipway.containers.runtime.named_files import read_text
from slipway.jobs.plan.inputs.files import MOST_BYTES, Fields, decode_plan_file, load_json
from slipway.jobs.plan.search.check import check
from slipway.jobs.plan.search.model import (
    Assignment,
    Billing,
    Goal,
    LowerBound,
    NodeDevices,
    Objective,
    Plan,
    PlanJob,
)
from slipway.jobs.plan.search.refusals import CannotPlan, word_of
from slipway.jobs.words.text import refuse_newer

SCHEMA = 1


def answer(plan: Plan) -> dict[str, object]:
    """Return the answer for programs: nodes and devices are counted from 0 inside each pool."""
    return {
        "assignments": [_assignment(each) for each in plan.assignments],
        "makespan": plan.makespan,
        "dollars": round(plan.dollars, 6),
        "bound": plan.bound.value,
        "bound_name": plan.bound.name,
        # JSON has no infinity: without a bound, the gap is null
        "gap": plan.gap if plan.bound.value > 0 or not plan.value else None,
        "stopped": plan.stopped,
    }


def encode_plan(plan: Plan) -> str:
    """Return the plan as JSON, with everything that decode_plan needs."""
    return json.dumps(plan_fields(plan), indent=1, allow_nan=False) + "\n"


def read_plan(path: Path, *, may_grow: bool = False) -> Plan:
    """Read a written plan, and refuse it if it is not valid.

    With `may_grow` the file may have jobs without a place: they were added after the plan was made.
    """
    text = read_text(path, MOST_BYTES)
    found = None if path.suffix == ".toml" else load_json(text, path)
    if found is None or ("jobs" in found.values and "assignments" not in found.values):
        raise CannotPlan(
            f"{path} has jobs to plan, and is no plan",
            hint=f"slipway plan make {shlex.quote(str(path))} --output plan.json, and give plan.json here",
        )
    refuse_newer(found.values.get("schema"), SCHEMA, str(path))
    plan = decode_plan(found, path.stem)
    placed = {each.job for each in plan.assignments}
    check(replace(plan, jobs=tuple(job for job in plan.jobs if job.name in placed)) if may_grow else plan)
    return plan


def decode_plan(found: Fields, name: str) -> Plan:
    inputs = decode_plan_file(found, name)
    by_name = {job.name: job for job in inputs.jobs}
    goal = found.inner("goal")
    return Plan(
        jobs=inputs.jobs,
        pools=inputs.pools,
        goal=Goal(
            objective=word_of("goal.objective", goal.text("objective"), Objective),
            deadline=goal.maybe(goal.whole, "deadline"),
            budget=goal.maybe(goal.number, "budget"),
            billing=word_of("goal.billing", goal.text("billing"), Billing),
        ),
        assignments=tuple(_decode_assignment(each, by_name) for each in found.objects("assignments")),
        bound=LowerBound(value=found.number("bound"), name=found.text("bound_name")),
        stopped=found.text("stopped", ""),
    )


def _assignment(each: Assignment) -> dict[str, object]:
    return {
        "job": each.job,
        "technique": each.mode.technique,
        "type": each.mode.type,
        "devices": each.mode.devices,
        "start": each.start,
        "seconds": each.seconds,
        "pool": each.pool,
        "placement": [{"node": share.node, "devices": list(share.devices)} for share in each.placement],
    }


def plan_fields(plan: Plan) -> Mapping[str, object]:
    """Return all fields of a plan's file."""
    modes = {job.name: job.modes for job in plan.jobs}
    assignments = [
        {**_assignment(each), "mode": modes[each.job].index(each.mode)} for each in plan.assignments
    ]
    pools = [asdict(pool) for pool in plan.pools]
    for pool in pools:
        pool["spot"] = pool.pop("is_spot")
    return {
        "schema": SCHEMA,
        **answer(plan),
        "assignments": assignments,
        "goal": asdict(plan.goal),
        "pools": pools,
        "jobs": [
            {
                **asdict(job),
                "modes": [{**asdict(mode), "settings": dict(mode.settings)} for mode in job.modes],
            }
            for job in plan.jobs
        ],
    }


def _decode_assignment(found: Fields, jobs: Mapping[str, PlanJob]) -> Assignment:
    job = found.text("job")
    if job not in jobs:
        raise found.refuse("job", "the name of one of its jobs")
    modes, place = jobs[job].modes, found.whole("mode")
    if not 0 <= place < len(modes):
        raise found.refuse("mode", f"0 to {len(modes) - 1}")
    return Assignment(
        job=job,
        mode=modes[place],
        pool=found.whole("pool"),
        start=found.whole("start"),
        seconds=found.whole("seconds"),
        placement=tuple(
            NodeDevices(node=share.whole("node"), devices=tuple(share.wholes("devices")))
            for share in found.objects("placement")
        ),
    )
