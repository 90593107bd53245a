"""What has happened to a plan: one line of JSON each. Reading them again tells all that there is to know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slipway.jobs.plan.search.model import Assignment, Mode, NodeDevices
from slipway.jobs.words.errors import SlipwayError


class DamagedEvents(SlipwayError):
    """Reports a journal whose lines cannot be read: what was done is not known, so nothing is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReplaced:
    """A plan came into force: the first one, or another for what is left."""

    at: float  # Unix seconds, as in all events
    why: str
    assignments: tuple[Assignment, ...]  # starts count from `at`


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptIntended:
    """An attempt of a job is about to be submitted; after a crash it is submitted as it stands here."""

    at: float
    job: str
    attempt: int
    left: float  # the share of its work that is not saved
    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSubmitted:
    at: float
    job: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStopping:
    """The attempt was asked to save and end, to go on elsewhere."""

    at: float
    job: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    at: float
    job: str
    outcome: str  # succeeded, failed, stopped (it goes on elsewhere) or withdrawn (by somebody)
    left: float
    began: float | None  # when its processes started
    ratio: float = 1.0  # its time over the first estimate
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSkipped:
    """A job that is never to run, since what it waits for failed."""

    at: float
    job: str
    why: str


HappenedEvent = (
    PlanReplaced | AttemptIntended | AttemptSubmitted | AttemptStopping | AttemptEnded | JobSkipped
)
_KINDS: Mapping[str, type[HappenedEvent]] = {
    "plan": PlanReplaced,
    "intent": AttemptIntended,
    "submission": AttemptSubmitted,
    "stopping": AttemptStopping,
    "end": AttemptEnded,
    "skip": JobSkipped,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode(event: HappenedEvent) -> str:
    return json.dumps({"event": _NAMES[type(event)], **asdict(event)}, allow_nan=False)


def decode(line: str, where: str) -> HappenedEvent:
    try:
        record = json.loads(line)
        kind = _KINDS[record.pop("event")]
        for name in ("assignments", "assignment"):
            if name in record:
                held = record[name]
                record[name] = tuple(map(_assignment, held)) if name == "assignments" else _assignment(held)
        return kind(**record)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DamagedEvents(
            f"{where} is no line of a plan's journal",
            hint="nothing was submitted; move the file away to begin again with what the clusters know",
        ) from None


def _assignment(record: Mapping[str, Any]) -> Assignment:
    mode = record["mode"]
    settings = tuple((str(name), str(value)) for name, value in mode["settings"])
    shares = tuple(
        NodeDevices(node=share["node"], devices=tuple(share["devices"])) for share in record["placement"]
    )
    return Assignment(**{**record, "mode": Mode(**{**mode, "settings": settings}), "placement": shares})
