"""`search(tasks)`: find out how each task trains fastest on each number of devices, here or on clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.description import stop_if_loading
from slipway.jobs.plan.tasks.library import all_names, retrieve
from slipway.jobs.plan.tasks.local_machine import LocalMachine, find_devices, scratch_folder
from slipway.jobs.plan.tasks.on_clusters.places import ClusterOrder
from slipway.jobs.plan.tasks.on_clusters.searching_there import search_on
from slipway.jobs.plan.tasks.profiling import Profiler
from slipway.jobs.plan.tasks.results import saying
from slipway.jobs.plan.tasks.task import NamedTasks, Task
from slipway.jobs.plan.tasks.trials import LocalTrials
from slipway.jobs.words.cost import AGREED_UNSAID, Agreed
from slipway.jobs.words.errors import SlipwayError


def search(
    tasks: Sequence[Task],
    executor_names: Sequence[str] | None = None,
    log: bool = False,
    *,
    devices: int | None = None,
    on: Sequence[str] | None = None,
    agreed: Agreed = AGREED_UNSAID,
) -> None:
    """Try few batches of few combinations on this machine, and give each task its `strategies`.

    `executor_names` are the techniques to consider (all), `devices` the most to use (all). With `on`, trials
    are jobs on these deployed clusters, `devices` the most of a node, and none may cost more than `agreed`.
    """
    stop_if_loading()
    if on is not None:
        search_on(tasks, executor_names, ClusterOrder.of(on, devices, agreed), saying(log))
        return
    named, names = NamedTasks.of(tasks).tasks, list(executor_names or all_names())
    for name in names:
        retrieve(name)  # refuses one that is not there, before a device is touched
    found = find_devices(devices)
    for task in named:
        task.strategies.clear()
        task.not_fitting.clear()
    try:
        with scratch_folder() as scratch, LocalMachine(found) as machine:
            Profiler(
                place=LocalTrials(machine),
                own=machine,
                folder=Path(scratch),
                counts=_counts(named, machine.count),
                names=names,
                say=saying(log),
            ).profile(named)
    except Refusal as refusal:
        raise SlipwayError(refusal.message, hint=refusal.hint) from None
    for task in named:
        _refuse_hopeless(task)


def _counts(tasks: Sequence[Task], most: int) -> list[int]:
    """Return 1, 2, 4, … and all devices, and what tasks ask for."""
    asked = {count for task in tasks for count in task.gpu_range or ()}
    usual = {2**power for power in range(most.bit_length())} | {most}
    return sorted(count for count in usual | asked if 1 <= count <= most)


def _refuse_hopeless(task: Task) -> None:
    if task.strategies:
        return
    reasons = "; ".join(f"{words}: {reason}" for words, reason in task.not_fitting.items())
    raise SlipwayError(
        f"nothing can train task '{task.name}' on this machine: {reasons or 'no technique was tried'}",
        hint="register a technique of your own, or change the task",
    )
