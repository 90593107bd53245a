"""What became of tasks, here or on clusters, and what is told of them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import partial

from slipway.jobs.plan.tasks.task import Task
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import Say

_DONE = "trained.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnd:
    name: str
    technique: str
    devices: tuple[int, ...]
    start: float  # seconds since the first
    end: float
    reason: str  # empty where all went well
    cluster: str = ""  # empty: this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestration:
    """Hold what became of the tasks, and what was planned."""

    ends: tuple[TaskEnd, ...]
    planned_seconds: float
    bound_seconds: float
    seconds: float

    @property
    def gap(self) -> float:
        return self.planned_seconds / self.bound_seconds - 1 if self.bound_seconds else 0.0


def is_trained(task: Task) -> bool:
    """Return True if exactly this task was trained to its end before."""
    mark = task.folder / _DONE
    return mark.is_file() and mark.read_text(encoding="utf-8") == _mark_of(task)


def mark_trained(task: Task) -> None:
    """Note that exactly this task was trained to its end."""
    task.folder.mkdir(parents=True, exist_ok=True)
    (task.folder / _DONE).write_text(_mark_of(task), encoding="utf-8")


def _mark_of(task: Task) -> str:
    return json.dumps(task.describe().as_json(), sort_keys=True)


def refuse_failures(result: Orchestration) -> None:
    """Raise one error that tells every task that failed."""
    failed = [end for end in result.ends if end.reason]
    if failed:
        told = "; ".join(f"{end.name}: {end.reason}" for end in failed)
        raise SlipwayError(
            f"{len(failed)} of {len(result.ends)} tasks failed: {told}",
            hint="mend these and orchestrate again: what was trained is kept",
        )


def saying(log: bool) -> Say:
    """Return what tells each step on stderr, if somebody asked for a log."""
    return partial(print, file=sys.stderr, flush=True) if log else lambda _: None
