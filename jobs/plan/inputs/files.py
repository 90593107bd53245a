"""Read jobs with given modes, and pools, from a JSON file.

    {"pools": [{"type", "nodes", "devices_per_node", "price_per_hour"}],
     "jobs": [{"name", "modes": [{"technique", "type", "devices", "seconds"}]}]}

What else may be said of a pool, a job or a mode is a line of its decoder below. A field that nobody knows is
told and passed over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from slipway.containers.runtime.named_files import read_text
from slipway.jobs.plan.inputs.fields import Fields
from slipway.jobs.plan.search.model import Mode, PlanJob, Pool
from slipway.jobs.plan.search.refusals import CannotPlan
from slipway.jobs.words.catalogue.instances import InstanceType, find_instance_type
from slipway.jobs.words.job import Job
from slipway.jobs.words.text import printable

MOST_BYTES = 64 << 20

_INPUT = ("name", "pools", "jobs", "known_optimum")
# A plan that was written is also a file of its jobs and pools: it can be planned again.
_ANSWER = ("schema", "goal", "assignments", "makespan", "dollars", "bound", "bound_name", "gap", "stopped")
_POOL = (
    "type",
    "nodes",
    "devices_per_node",
    "price_per_hour",
    "spot",
    "interruptions_per_hour",
    "rework_seconds",
    "cluster",
    "spans_nodes",
)
_JOB = ("name", "modes", "steps", "depends_on", "deadline", "priority", "job")
_MODE = ("technique", "type", "devices", "seconds", "source", "error", "settings")
_HOUSE_JOB = tuple(field.name for field in fields(Job))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """Holds the jobs and pools of a file, and what a person should know of how they were read."""

    name: str
    jobs: tuple[PlanJob, ...]
    pools: tuple[Pool, ...]
    notes: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()  # types of pools whose price nobody knows


def read_plan_file(path: Path) -> PlanFile:
    return decode_plan_file(load_json(read_text(path, MOST_BYTES), path), path.stem)


def load_json(text: str, path: Path) -> Fields:
    """Parse one JSON object, and refuse a key that is said twice: the second would silently win."""
    try:
        found = json.loads(text, object_pairs_hook=_object)
    except _TwiceSaid as error:
        raise CannotPlan(
            f"{path}: the key {error} is there twice in one object", hint="say it once"
        ) from None
    except json.JSONDecodeError as error:
        raise CannotPlan(
            f"{path} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})",
            hint="the format is in docs/planner.md",
        ) from None
    except (RecursionError, ValueError):  # nested without end; a number of thousands of digits
        raise CannotPlan(f"{path} is JSON that nobody can read", hint="is it the right file?") from None
    if not isinstance(found, dict):
        raise CannotPlan(
            f"{path} holds {type(found).__name__}, and must hold an object with 'pools' and 'jobs'",
            hint="the format is in docs/planner.md",
        )
    return Fields(where="", values=found)


def decode_plan_file(found: Fields, name: str) -> PlanFile:
    unknown: list[str] = list(found.unknown((*_INPUT, *_ANSWER)))
    unpriced: list[str] = []
    pools = tuple(_pool(each, unknown, unpriced) for each in found.objects("pools"))
    jobs = tuple(_job(each, unknown) for each in found.objects("jobs"))
    return PlanFile(
        name=found.text("name", name),
        jobs=jobs,
        pools=pools,
        notes=(*_said_of_unknown(unknown), *_said_of_unpriced(unpriced)),
        unpriced=tuple(unpriced),
    )


def _pool(found: Fields, unknown: list[str], unpriced: list[str]) -> Pool:
    unknown += found.unknown(_POOL)
    type_name = found.text("type")
    known = find_instance_type(type_name)
    price = found.number("price_per_hour", known.price.usd_per_hour if known and known.price else -1.0)
    if price < 0 and not found.has("price_per_hour"):
        unpriced.append(type_name)
        price = 0.0
    return Pool(
        type=type_name,
        nodes=found.whole("nodes"),
        devices_per_node=found.whole("devices_per_node", _devices(known)),
        price_per_hour=price,
        is_spot=found.truth("spot", False),
        interruptions_per_hour=found.number("interruptions_per_hour", 0.0),
        rework_seconds=found.seconds("rework_seconds", 0),
        cluster=found.text("cluster", ""),
        # A type that the catalogue does not know is believed to be able to.
        spans_nodes=found.truth("spans_nodes", known is None or known.has_efa),
    )


def _devices(known: InstanceType | None) -> int | None:
    return known.accelerator.count if known and known.accelerator else None


def _job(found: Fields, unknown: list[str]) -> PlanJob:
    unknown += found.unknown(_JOB)
    return PlanJob(
        name=found.text("name"),
        modes=tuple(_mode(each, unknown) for each in found.objects("modes")),
        steps=found.whole("steps") if found.has("steps") else None,
        depends_on=found.texts("depends_on"),
        deadline=found.seconds("deadline") if found.has("deadline") else None,
        priority=found.whole("priority", 0),
        job=_house_job(found.inner("job"), unknown) if found.has("job") else None,
    )


def _house_job(found: Fields, unknown: list[str]) -> Job:
    unknown += found.unknown(_HOUSE_JOB)
    texts = {name: found.text(name) for name in ("data", "checkpoints", "image") if found.has(name)}
    limits = {
        name: found.whole(name)
        for name in ("timeout_seconds", "attempts", "processes_per_node")
        if found.has(name)
    }
    return Job(
        name=found.text("name"),
        recipe=found.text("recipe"),
        nodes=found.whole("nodes"),
        settings=found.text_by_name("settings"),
        data=texts.get("data"),
        checkpoints=texts.get("checkpoints"),
        image=texts.get("image"),
        timeout_seconds=limits.get("timeout_seconds"),
        attempts=limits.get("attempts"),
        processes_per_node=limits.get("processes_per_node"),
        repeat=found.whole("repeat", 0),
        depends_on=found.texts("depends_on"),
    )


def _mode(found: Fields, unknown: list[str]) -> Mode:
    unknown += found.unknown(_MODE)
    return Mode(
        technique=found.text("technique", "given"),
        type=found.text("type"),
        devices=found.whole("devices"),
        seconds=found.seconds("seconds"),
        source=found.text("source", "given"),
        error=found.number("error", 0.0),
        settings=tuple(found.text_by_name("settings").items()),
    )


class _TwiceSaid(Exception):
    """Carries a key that one object has twice."""


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise _TwiceSaid(f"'{printable(twice[:60])}'")
    return found


def _said_of_unknown(places: Sequence[str]) -> list[str]:
    """Name each unknown field once, where it first stands."""
    first: dict[str, str] = {}
    for place in places:
        first.setdefault(place.rpartition(".")[2], place)
    return [
        f"{printable(place[:100])} is no field that a plan knows: passed over" for place in first.values()
    ]


def _said_of_unpriced(types: Sequence[str]) -> list[str]:
    return [f"no price of {printable(name[:60])} is known: it counts as 0 dollars" for name in types]
