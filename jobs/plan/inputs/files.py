"""Read jobs with given modes, and pools, from a JSON file.

    {"pools": [{"type", "nodes", "devices_per_node", "price_per_hour"}],
     "jobs": [{"name", "modes": [{"technique", "type", "devices", "seconds"}]}]}

_POOL, _JOB and _MODE list all fields of a pool, a job and a mode. An unknown field is ignored with a warning.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from slipway.containers.runtime.named_files import read_text
from slipway.jobs.estimate.prices import Rate
from slipway.jobs.plan.search.model import Mode, PlanJob, Pool
from slipway.jobs.plan.search.refusals import CannotPlan
from slipway.jobs.words.catalogue.instances import SPOT, Price, find_instance_type
from slipway.jobs.words.catalogue.regional import price_by_term
from slipway.jobs.words.job import Job
from slipway.jobs.words.text import printable

MOST_BYTES = 64 << 20
Read = TypeVar("Read")

_INPUT = ("name", "pools", "jobs", "known_optimum")
# A written plan is also a valid input file: it holds its jobs and pools, and can be planned again.
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
    """Holds the jobs and pools of a file, and the warnings from reading them."""

    name: str
    jobs: tuple[PlanJob, ...]
    pools: tuple[Pool, ...]
    notes: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()  # types of pools whose price is not known
    priced: tuple[str, ...] = ()  # the prices taken from the catalogue, with their dates


def read_plan_file(path: Path) -> PlanFile:
    return decode_plan_file(load_json(read_text(path, MOST_BYTES), path), path.stem)


def load_json(text: str, path: Path) -> Fields:
    """Parse one JSON object; refuse a duplicate key, whose second value would silently win."""
    try:
        found = json.loads(text, object_pairs_hook=_object)
    except _TwiceSaid as error:
        raise CannotPlan(
            f"{path}: the key {error} appears twice in one object", hint="give it once"
        ) from None
    except json.JSONDecodeError as error:
        raise CannotPlan(
            f"{path} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})",
            hint="the format is in docs/planner.md",
        ) from None
    except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
        raise CannotPlan(
            f"{path} cannot be read: it is nested too deeply, or a number is too long",
            hint="is it the right file?",
        ) from None
    if not isinstance(found, dict):
        raise CannotPlan(
            f"{path} holds {type(found).__name__}, and must hold an object with 'pools' and 'jobs'",
            hint="the format is in docs/planner.md",
        )
    return Fields(where="", values=found)


def decode_plan_file(found: Fields, name: str) -> PlanFile:
    unknown: list[str] = list(found.unknown((*_INPUT, *_ANSWER)))
    unpriced: list[str] = []
    notes: list[str] = []
    pools = tuple(_pool(each, unknown, unpriced, notes) for each in found.objects("pools"))
    jobs = tuple(_job(each, unknown) for each in found.objects("jobs"))
    first: dict[str, str] = {}  # place of each unknown field
    for place in unknown:
        first.setdefault(place.rpartition(".")[2], place)
    ignored = [f"{printable(place[:100])} is no field of a plan and is ignored" for place in first.values()]
    unknown_prices = [
        f"no price of {printable(each[:60])} is known: it counts as 0 dollars" for each in unpriced
    ]
    return PlanFile(
        name=found.text("name", name),
        jobs=jobs,
        pools=pools,
        notes=(*ignored, *unknown_prices),
        unpriced=tuple(unpriced),
        priced=tuple(dict.fromkeys(notes)),
    )


def price_words(price: Price | Rate, type_name: str) -> str:
    """Describe the price of a pool, and its date."""
    usd = f"{type_name} at {price.usd_per_hour:g} USD an hour {price.term} in {price.region}"
    return f"priced by {usd} of {price.date}"


def _pool(found: Fields, unknown: list[str], unpriced: list[str], notes: list[str]) -> Pool:
    unknown += found.unknown(_POOL)
    type_name = found.text("type")
    known = find_instance_type(type_name)
    devices = known.accelerator.count if known and known.accelerator else None
    is_spot = found.truth("spot", False)
    listed = known.price if known else None
    if known and listed and is_spot:
        listed = price_by_term(known, listed.region, SPOT) or listed
    price = found.number("price_per_hour", listed.usd_per_hour if listed else -1.0)
    if not found.has("price_per_hour"):
        if listed is None:
            unpriced.append(type_name)
            price = 0.0
        else:
            notes.append(price_words(listed, type_name))
    return Pool(
        type=type_name,
        nodes=found.whole("nodes"),
        devices_per_node=found.whole("devices_per_node", devices),
        price_per_hour=price,
        is_spot=is_spot,
        interruptions_per_hour=found.number("interruptions_per_hour", 0.0),
        rework_seconds=found.seconds("rework_seconds", 0),
        cluster=found.text("cluster", ""),
        # A type that is not in the catalogue is assumed to be able to.
        spans_nodes=found.truth("spans_nodes", known is None or known.has_efa),
    )


def _job(found: Fields, unknown: list[str]) -> PlanJob:
    unknown += found.unknown(_JOB)
    return PlanJob(
        name=found.text("name"),
        modes=tuple(_mode(each, unknown) for each in found.objects("modes")),
        steps=found.maybe(found.whole, "steps"),
        depends_on=found.texts("depends_on"),
        deadline=found.maybe(found.seconds, "deadline"),
        priority=found.whole("priority", 0),
        job=_house_job(found.inner("job"), unknown) if found.has("job") else None,
    )


def _house_job(found: Fields, unknown: list[str]) -> Job:
    unknown += found.unknown(_HOUSE_JOB)
    return Job(
        name=found.text("name"),
        recipe=found.text("recipe"),
        nodes=found.whole("nodes"),
        settings=found.text_by_name("settings"),
        data=found.maybe(found.text, "data"),
        checkpoints=found.maybe(found.text, "checkpoints"),
        image=found.maybe(found.text, "image"),
        timeout_seconds=found.maybe(found.whole, "timeout_seconds"),
        attempts=found.maybe(found.whole, "attempts"),
        processes_per_node=found.maybe(found.whole, "processes_per_node"),
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
    """Carries the key that appears twice in one object."""


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise _TwiceSaid(f"'{printable(twice[:60])}'")
    return found


# Typed access to the fields of a JSON object; a field of another type is refused with its place in the file.
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Holds one object of a file, and its place there."""

    where: str
    values: Mapping[str, object]

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self.refuse(name, "a text")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a whole number: 2.0 counts as one, true does not."""
        value = self._value(name, default)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if type(value) is not int:
            raise self.refuse(name, "a whole number")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self._value(name, default)
        if type(value) not in (int, float) or not _is_finite(value):
            raise self.refuse(name, "a finite number")
        assert isinstance(value, int | float)
        return float(value)

    def seconds(self, name: str, default: int | None = None) -> int:
        """Return whole seconds, rounded up so that a job never takes longer than its time."""
        return math.ceil(self.number(name, default))

    def truth(self, name: str, default: bool) -> bool:
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse(name, "a list of texts")
        return tuple(value)

    def wholes(self, name: str) -> tuple[int, ...]:
        value = self.values.get(name)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self.refuse(name, "a list of whole numbers")
        return tuple(value)

    def text_by_name(self, name: str) -> dict[str, str]:
        value = self.values.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.refuse(name, "an object of texts")
        return dict(value)

    def inner(self, name: str) -> Fields:
        value = self._value(name, None)
        if not isinstance(value, dict):
            raise self.refuse(name, "an object")
        return Fields(where=self._at(name), values=value)

    def objects(self, name: str) -> Iterator[Fields]:
        """Yield each object of a required list."""
        value, where = self._value(name, None), self._at(name)
        if not isinstance(value, list):
            raise CannotPlan(
                f"{where} is {_shown(value)}; allowed is a list of objects", hint="write [{…}, {…}]"
            )
        for place, item in enumerate(value):
            here = f"{where}[{place}]"
            if not isinstance(item, dict):
                raise CannotPlan(f"{here} is {_shown(item)}; allowed is an object", hint="write {…}")
            yield Fields(where=here, values=item)

    def maybe(self, read: Callable[[str], Read], name: str) -> Read | None:
        """Return what the reader finds, or None if the field is missing or null."""
        return read(name) if self.has(name) else None

    def has(self, name: str) -> bool:
        """Return True if the field is present and not null."""
        return self.values.get(name) is not None

    def unknown(self, known: Sequence[str]) -> Iterator[str]:
        yield from (self._at(name) for name in self.values if name not in known)

    def refuse(self, name: str, allowed: str) -> CannotPlan:
        return CannotPlan(
            f"{printable(self._at(name))} is {_shown(self.values.get(name))}; allowed is {allowed}",
            hint="correct it in the file",
        )

    def _value(self, name: str, default: object) -> object:
        value = self.values.get(name)
        if value is not None:
            return value
        if default is None:
            raise CannotPlan(
                f"{self.where or 'the file'} has no {name}", hint=f"give {printable(self._at(name))} a value"
            )
        return default

    def _at(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name


def _is_finite(value: object) -> bool:
    try:
        return math.isfinite(value)  # type: ignore[arg-type]  # only numbers come here
    except OverflowError:  # a whole number beyond every float
        return False


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:
        return "a number of more than 60 digits"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


# Durations as people write them: 24h, 90m, 1d12h, or seconds.
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1, "": 1}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([dhms]?)")
RULE = "write seconds, or 24h, 90m, 1d12h"


def parse_duration(text: str) -> int | None:
    """Return whole seconds, or None if the text is no duration; a number without a unit must stand alone."""
    written = text.strip().lower().replace(" ", "")
    parts = _PART.findall(written)
    if not parts or "".join(map("".join, parts)) != written:
        return None
    if len(parts) > 1 and any(not unit for _, unit in parts):
        return None
    return math.floor(sum(float(number) * _UNITS[unit] for number, unit in parts))
