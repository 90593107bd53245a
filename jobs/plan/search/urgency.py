"""Let urgent jobs go first where it costs nothing: among those that follow each other on the same devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slipway.jobs.plan.search.list_schedule import Slot
from slipway.jobs.plan.search.model import PlanJob
from slipway.jobs.plan.search.options import PlanProblem

NEVER = float("inf")


def urgent_first(problem: PlanProblem, slots: Sequence[Slot]) -> list[Slot]:
    """Return the same plan with earlier deadlines, then higher priorities, first in each row of jobs."""
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
    """Return jobs that have the same devices one after the other, and that wait for nothing else."""
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
