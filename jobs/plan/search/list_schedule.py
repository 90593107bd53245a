"""Place jobs one after the other, each where it can start first; every heuristic ends with this."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipway.jobs.plan.search.model import NO_BOUND, Assignment, LowerBound, NodeDevices, Plan, PlanJob, Pool
from slipway.jobs.plan.search.options import Option, PlanProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Holds where and when one option of a job runs."""

    option: Option
    start: int
    placement: tuple[NodeDevices, ...]

    @property
    def end(self) -> int:
        return self.start + self.option.seconds


class FreeDevices:
    """Holds from when on each device of a pool is free."""

    def __init__(self, pool: Pool) -> None:
        self._free = [[0] * pool.devices_per_node for _ in range(pool.nodes)]
        # By count of devices (from 1) and node: when this many are free, and the sum of their times.
        self._since = np.zeros((pool.devices_per_node, pool.nodes), dtype=np.int64)
        self._sums = np.zeros_like(self._since)

    def first_start(self, option: Option, ready: int = 0) -> int:
        """Return when `earliest` would start the option."""
        since = self._since[-1] if option.nodes else self._since[option.devices - 1]
        if option.nodes > 1:
            return max(ready, int(np.partition(since, option.nodes - 1)[option.nodes - 1]))
        return max(ready, int(since.min()))

    def earliest(self, option: Option, ready: int = 0) -> tuple[int, tuple[NodeDevices, ...]]:
        """Return the first start from `ready` on, and the devices that idle least until then."""
        if option.nodes:
            since = self._since[-1]
            first = np.argsort(since, kind="stable")[: option.nodes]
            every = tuple(range(len(self._free[0])))
            start = max(ready, int(since[first[-1]]))
            return start, tuple(NodeDevices(node=node, devices=every) for node in sorted(first.tolist()))
        since = self._since[option.devices - 1]
        start = max(ready, int(since.min()))
        node = int(np.where(since <= start, self._sums[option.devices - 1], -1).argmax())
        # Of the devices that are free at the start, those that were busy last.
        fitting = sorted((-free, device) for device, free in enumerate(self._free[node]) if free <= start)
        devices = tuple(sorted(device for _, device in fitting[: option.devices]))
        return start, (NodeDevices(node=node, devices=devices),)

    @property
    def since(self) -> list[int]:
        """Return from when on each device of the first node is free, sorted."""
        return [int(each) for each in self._since[:, 0]]

    def take(self, placement: Iterable[NodeDevices], until: int) -> None:
        for share in placement:
            free = self._free[share.node]
            for device in share.devices:
                free[device] = until
            since = sorted(free)
            self._since[:, share.node] = since
            self._sums[:, share.node] = list(itertools.accumulate(since))


def list_schedule(problem: PlanProblem, choice: Sequence[int], order: Sequence[int]) -> list[Slot]:
    """Place each job's chosen option in this order; a job that depends on others comes after them."""
    free = [FreeDevices(pool) for pool in problem.pools]
    options = [options[taken] for options, taken in zip(problem.options, choice, strict=True)]
    return place_in_order(problem, options, order, free, {})


def place_in_order(
    problem: PlanProblem,
    options: Sequence[Option],
    order: Sequence[int],
    free: Sequence[FreeDevices],
    placed: Mapping[int, Slot],
) -> list[Slot]:
    """Place each job's option on free devices, except for jobs that are placed already."""
    slots = dict(placed)
    for job in after_dependencies(problem, order):
        if job not in slots:
            option = options[job]
            ready = max((slots[before].end for before in problem.after[job]), default=0)
            start, placement = free[option.pool].earliest(option, ready)
            free[option.pool].take(placement, start + option.seconds)
            slots[job] = Slot(option=option, start=start, placement=placement)
    return [slots[job] for job in range(len(problem.jobs))]


def as_assignment(job: str, slot: Slot) -> Assignment:
    return Assignment(
        job=job,
        mode=slot.option.mode,
        pool=slot.option.pool,
        start=slot.start,
        seconds=slot.option.seconds,
        placement=slot.placement,
    )


def score_of(problem: PlanProblem, slots: Sequence[Slot]) -> tuple[float, float, float]:
    """Return what to minimise: seconds too late, dollars above the budget, the goal's value."""
    return as_plan(problem, slots).score


def as_plan(
    problem: PlanProblem, slots: Sequence[Slot], bound: LowerBound = NO_BOUND, stopped: str = ""
) -> Plan:
    return Plan(
        jobs=problem.jobs,
        pools=problem.pools,
        goal=problem.goal,
        assignments=tuple(
            as_assignment(job.name, slot) for job, slot in zip(problem.jobs, slots, strict=True)
        ),
        bound=bound,
        stopped=stopped,
    )


def after_dependencies(problem: PlanProblem, order: Sequence[int]) -> Iterator[int]:
    """Yield all jobs in this order, but each after those that it depends on."""
    placed: set[int] = set()
    for first in order:
        waiting = [first]
        while waiting:
            job = waiting[-1]
            missing = [before for before in problem.after[job] if before not in placed]
            waiting.extend(missing)
            if not missing:
                waiting.pop()
                if job not in placed:
                    placed.add(job)
                    yield job


# Let urgent jobs go first if it costs nothing: among jobs that follow each other on the same devices.
NEVER = float("inf")


def urgent_first(problem: PlanProblem, slots: Sequence[Slot]) -> list[Slot]:
    """Return the same plan with each row of jobs sorted by deadline, then by priority."""
    found = list(slots)
    if all(job.deadline is None and job.priority == problem.jobs[0].priority for job in problem.jobs):
        return found
    for row in _rows(problem, slots):
        moment = slots[row[0]].start
        for job in sorted(row, key=lambda job: _urgency(problem.jobs[job])):
            found[job] = replace(slots[job], start=moment)
            moment = found[job].end
    return found


def _urgency(job: PlanJob) -> tuple[float, int]:
    return NEVER if job.deadline is None else job.deadline, -job.priority


def _rows(problem: PlanProblem, slots: Sequence[Slot]) -> Iterable[list[int]]:
    """Return the rows: jobs that follow each other on the same devices and have no dependencies."""
    awaited = {before for after in problem.after for before in after}
    last: dict[tuple[int, int, int], int] = {}
    rows: dict[int, list[int]] = {}
    for job in sorted(range(len(slots)), key=lambda job: slots[job].start):
        pool = slots[job].option.pool
        devices = [(pool, share.node, each) for share in slots[job].placement for each in share.devices]
        before = {last.get(device, job) for device in devices}
        last |= dict.fromkeys(devices, job)
        if job in awaited or problem.after[job]:
            continue
        rows[job] = [job]
        (one, *others) = before
        if not others and one != job and one in rows and slots[one].placement == slots[job].placement:
            rows[job] = rows[one]
            rows[job].append(job)
    return {row[0]: row for row in rows.values()}.values()
