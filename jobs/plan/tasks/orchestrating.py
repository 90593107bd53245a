"""`orchestrate(tasks)`: plan all tasks over this machine's devices, or clusters, and train them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from slipway.containers.tasks.description import stop_if_loading
from slipway.jobs.plan.inputs.planning import plan, refuse_limits
from slipway.jobs.plan.search.model import Mode, Plan, PlanJob, Pool
from slipway.jobs.plan.tasks.local_machine import GangEnd, LocalMachine, RankGang, find_devices
from slipway.jobs.plan.tasks.on_clusters.orchestrating_there import orchestrate_on
from slipway.jobs.plan.tasks.on_clusters.sent_code import ClusterOrder
from slipway.jobs.plan.tasks.our_techniques import RankTechnique
from slipway.jobs.plan.tasks.own_technique import OwnOrder, run_own
from slipway.jobs.plan.tasks.saved_models import CHECKPOINTS
from slipway.jobs.plan.tasks.searching import (
    Orchestration,
    TaskEnd,
    is_trained,
    mark_trained,
    refuse_failures,
    saying,
    search,
)
from slipway.jobs.plan.tasks.task import Strategy, Task, refuse_like_named
from slipway.jobs.words.given import checked
from slipway.jobs.words.run import AGREED_UNSAID, Agreed
from slipway.jobs.words.text import Say

MACHINE = "this machine"
# Plans count whole units of time: a millisecond for tiny tasks, else a second.
_SHORT_SECONDS, _UNITS = 1000.0, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWork:
    """Hold what is trained, how, on which devices and when."""

    task: Task
    strategy: Strategy
    devices: tuple[int, ...]
    start: int  # in the plan


def _train(machine: LocalMachine, work: TaskWork) -> GangEnd:
    """Train one task to its end, on a group of ranks or in a process for the user's own technique."""
    task, strategy, folder = work.task, work.strategy, work.task.folder
    if issubclass(strategy.executor, RankTechnique):
        end = machine.run(
            RankGang(
                task=task.describe(),
                devices=work.devices,
                settings={name: str(value) for name, value in strategy.parameters.items()},
                folder=folder / "logs",
                checkpoints=folder / CHECKPOINTS,
            )
        )
    else:
        own = OwnOrder(
            what="execute",
            task=task,
            technique=strategy.technique,
            devices=work.devices,
            folder=folder / "logs",
            parameters=strategy.parameters,
        )
        end = run_own(machine, own)
    if not end.code:
        mark_trained(task)
    return end


@checked
def orchestrate(
    tasks: Sequence[Task],
    log: bool = False,
    *,
    devices: int | None = None,
    time_limit: float = 10.0,
    on: Sequence[str] | None = None,
    agreed: Agreed = AGREED_UNSAID,
) -> Orchestration:
    """Train all tasks on this machine in as little time as the plan finds; raise if any of them fails.

    A task goes on from its newest checkpoint; one that was trained to its end before is left alone. With
    `on`, tasks train on these deployed clusters: `devices` is the most to use of a node, and the plan may not
    cost more than `agreed`.
    """
    stop_if_loading()
    refuse_limits({"time_limit": time_limit})  # here, not after an hour of trials
    if on is not None:
        return orchestrate_on(tasks, ClusterOrder.of(on, devices, agreed), time_limit, saying(log))
    named = [task for task in refuse_like_named(tasks) if not is_trained(task)]
    if not named:
        return Orchestration(ends=(), planned_seconds=0.0, bound_seconds=0.0, seconds=0.0)
    found = find_devices(devices)
    missing = [task for task in named if not task.strategies]
    if missing:
        search(missing, log=log, devices=devices)
    planned, unit = plan_tasks(named, len(found.names), time_limit)
    works = works_of(planned, named)
    say = saying(log)
    began = time.monotonic()
    with ThreadPoolExecutor(len(works)) as pool, LocalMachine(found) as machine:
        ends = _carry_out(works, machine, pool, say)
    result = Orchestration(
        ends=tuple(ends),
        planned_seconds=planned.makespan * unit,
        bound_seconds=planned.bound.value * unit,
        seconds=time.monotonic() - began,
    )
    refuse_failures(result)
    return result


def plan_tasks(tasks: Sequence[Task], devices: int, time_limit: float) -> tuple[Plan, float]:
    """Plan the tasks over this many devices; return the plan, and the seconds of its unit of time."""
    longest = max(each.runtime for task in tasks for each in task.strategies.values())
    unit = 1 / _UNITS if longest < _SHORT_SECONDS else 1.0
    jobs = []
    for task in tasks:
        modes = tuple(
            Mode(
                technique=strategy.technique,
                type=MACHINE,
                devices=count,
                seconds=max(1, math.ceil(strategy.runtime / unit)),
                source=strategy.source,
                error=strategy.error,
                settings=tuple((name, str(value)) for name, value in strategy.parameters.items()),
            )
            for count, strategy in sorted(task.strategies.items())
            if count <= devices
        )
        jobs.append(PlanJob(name=task.name, modes=modes))
    pool = Pool(type=MACHINE, nodes=1, devices_per_node=devices, price_per_hour=0.0)
    return plan(jobs, [pool], time_limit=time_limit), unit


def works_of(planned: Plan, tasks: Sequence[Task]) -> list[TaskWork]:
    """Return the plan's work by task, in order of start."""
    by_name = {task.name: task for task in tasks}
    works = []
    for assignment in planned.assignments:
        task = by_name[assignment.job]
        chosen = task.strategies[assignment.mode.devices]
        task.select_strategy(chosen)
        devices = tuple(device for share in assignment.placement for device in share.devices)
        works.append(TaskWork(task=task, strategy=chosen, devices=devices, start=assignment.start))
    return sorted(works, key=lambda work: work.start)


def _carry_out(
    works: Sequence[TaskWork], machine: LocalMachine, pool: ThreadPoolExecutor, say: Say
) -> list[TaskEnd]:
    """Start each task once the tasks before it on its devices have ended."""
    began, waiting, ends = time.monotonic(), list(works), []
    running: dict[Future[GangEnd], tuple[TaskWork, float]] = {}
    while waiting or running:
        taken = {device for work, _ in running.values() for device in work.devices}
        for work in list(waiting):
            if taken.isdisjoint(work.devices):
                waiting.remove(work)
                running[pool.submit(_train, machine, work)] = (work, time.monotonic() - began)
                say(f"{work.task.name} starts: {work.strategy.technique} on devices {list(work.devices)}")
            taken.update(work.devices)
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            work, start = running.pop(done)
            end = done.result()
            ends.append(
                TaskEnd(
                    name=work.task.name,
                    technique=work.strategy.technique,
                    devices=work.devices,
                    start=start,
                    end=time.monotonic() - began,
                    reason=end.reason if end.code else "",
                )
            )
            say(f"{work.task.name} ended{': ' + ends[-1].reason if ends[-1].reason else ''}")
    return ends
