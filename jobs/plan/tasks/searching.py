"""`search(tasks)`: find out how each task trains fastest on each number of devices, here or on clusters."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.description import stop_if_loading
from slipway.jobs.plan.tasks.library import all_names, retrieve
from slipway.jobs.plan.tasks.local_machine import LocalMachine, find_devices, scratch_folder
from slipway.jobs.plan.tasks.on_clusters.searching_there import hopeless, search_on
from slipway.jobs.plan.tasks.on_clusters.sent_code import ClusterOrder
from slipway.jobs.plan.tasks.profiling import Profiler
from slipway.jobs.plan.tasks.task import Task, refuse_like_named
from slipway.jobs.plan.tasks.trials import LocalTrials
from slipway.jobs.plan.techniques.techniques import doubling
from slipway.jobs.platforms.on_nodes import write_whole
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import checked
from slipway.jobs.words.run import AGREED_UNSAID, Agreed
from slipway.jobs.words.text import Say


@checked
def search(
    tasks: Sequence[Task],
    executor_names: Sequence[str] | None = None,
    log: bool = False,
    *,
    devices: int | None = None,
    on: Sequence[str] | None = None,
    agreed: Agreed = AGREED_UNSAID,
) -> None:
    """Try a few combinations for a few batches on this machine, and give each task its `strategies`.

    `executor_names` are the techniques to try (default: all), `devices` is the most to use (default: all).
    With `on`, trials are jobs on these deployed clusters, `devices` is the most to use of a node, and no
    trial may cost more than `agreed`.
    """
    stop_if_loading()
    if on is not None:
        search_on(tasks, executor_names, ClusterOrder.of(on, devices, agreed), saying(log))
        return
    named, names = refuse_like_named(tasks), list(executor_names or all_names())
    for name in names:
        retrieve(name)  # refuses an unknown name before any trial
    found = find_devices(devices)
    for task in named:
        task.strategies.clear()
        task.not_fitting.clear()
    try:
        with scratch_folder() as scratch, LocalMachine(found) as machine:
            # 1, 2, 4, … and all devices, and the numbers that tasks ask for.
            asked = {count for task in named for count in task.gpu_range or ()}
            counts = {*doubling(machine.count), *asked}
            Profiler(
                place=LocalTrials(machine),
                own=machine,
                folder=Path(scratch),
                counts=sorted(count for count in counts if 1 <= count <= machine.count),
                names=names,
                say=saying(log),
            ).profile(named)
    except Refusal as refusal:
        raise SlipwayError(refusal.message, hint=refusal.hint) from None
    for task in named:
        if not task.strategies:
            hint = "register a technique of your own, or change the task"
            raise hopeless(task, "this machine", otherwise="no technique was tried", hint=hint)


# The results of tasks, here or on clusters, and how they are reported.
_DONE = "trained.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnd:
    name: str
    technique: str
    devices: tuple[int, ...]
    start: float  # seconds since the first task's start
    end: float
    reason: str  # empty if all went well
    cluster: str = ""  # empty: this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestration:
    """Hold how the tasks ended, and what was planned."""

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
    write_whole(task.folder / _DONE, _mark_of(task))


def _mark_of(task: Task) -> str:
    return json.dumps(task.describe().as_json(), sort_keys=True)


def refuse_failures(result: Orchestration) -> None:
    """Raise one error that names every task that failed."""
    failed = [end for end in result.ends if end.reason]
    if failed:
        told = "; ".join(f"{end.name}: {end.reason}" for end in failed)
        raise SlipwayError(
            f"{len(failed)} of {len(result.ends)} tasks failed: {told}",
            hint="mend these and orchestrate again: what was trained is kept",
        )


def saying(log: bool) -> Say:
    """Return a function that writes each step to stderr if a log is wanted."""
    return partial(print, file=sys.stderr, flush=True) if log else lambda _: None
