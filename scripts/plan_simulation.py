"""Simulate a plan whose estimates are wrong: as it was planned, and with replanning on events.

An event is the end of a job, or the moment when a job has run a tenth of its time and its estimate is found
to be off by more than a tenth.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slipway.jobs.plan.search.model import Assignment, Plan
from slipway.jobs.plan.search.replan import Situation, Solve, Standing, replan

NOTICED_SHARE = 0.1  # share of a job's time after which its speed is known
NOTICED_ERROR = 0.1


def true_factors(plan: Plan, sigma: float, seed: int) -> Mapping[str, float]:
    """Return the real time of each job over its estimate."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    return {job.name: dice.lognormvariate(0.0, sigma) for job in plan.jobs}


def fixed_makespan(plan: Plan, factors: Mapping[str, float]) -> float:
    """Return the makespan if each job starts on its planned devices once the jobs before it have ended."""
    free: dict[tuple[int, int, int], float] = {}
    for each in sorted(plan.assignments, key=lambda each: each.start):
        devices = [(each.pool, share.node, device) for share in each.placement for device in share.devices]
        start = max(free.get(device, 0.0) for device in devices)
        free.update(dict.fromkeys(devices, start + each.seconds * factors[each.job]))
    return max(free.values())


@dataclass(slots=True, kw_only=True)
class _Run:
    """A stretch of a job on one allocation."""

    assignment: Assignment
    began: float
    left: float  # share of the job at the start of this stretch
    lost: float  # seconds of the switch, before the job goes on
    seconds: float  # real seconds of the whole job here

    @property
    def end(self) -> float:
        return self.began + self.lost + self.left * self.seconds

    def left_at(self, now: float) -> float:
        return self.left - min(self.left, max(0.0, now - self.began - self.lost) / self.seconds)


@dataclass(slots=True, kw_only=True)
class ReplannedRun:
    """Runs a plan, and plans again what is left at each event."""

    plan: Plan
    factors: Mapping[str, float]
    switch_seconds: int
    solve: Solve
    now: float = 0.0
    _left: dict[str, float] = field(default_factory=dict)
    _known: dict[str, float] = field(default_factory=dict)
    _runs: dict[str, _Run] = field(default_factory=dict)
    _planned: dict[str, Assignment] = field(default_factory=dict)

    def makespan(self) -> float:
        self._left = {job.name: 1.0 for job in self.plan.jobs}
        self._planned = {each.job: each for each in self.plan.assignments}
        for each in self.plan.assignments:
            if each.start == 0:
                self._begin(each)
        while self._runs:
            self._wait_for_event()
            if self._left:
                self._plan_again()
        return self.now

    def _wait_for_event(self) -> None:
        """Advance time to the next end of a job, or the next estimate that is found wrong."""
        ends = [(run.end, name, True) for name, run in self._runs.items()]
        noticed = [
            (run.began + run.lost + NOTICED_SHARE * run.seconds, name, False)
            for name, run in self._runs.items()
            if name not in self._known and run.left > NOTICED_SHARE
        ]
        self.now, name, is_end = min(ends + noticed)
        if is_end:
            del self._runs[name], self._left[name]
        else:
            self._known[name] = self.factors[name]

    def _plan_again(self) -> None:
        situation = Situation(
            jobs=tuple(replace(job, depends_on=()) for job in self.plan.jobs if job.name in self._left),
            pools=self.plan.pools,
            goal=self.plan.goal,
            standings={name: self._standing(name) for name in self._left},
            switch_seconds=self.switch_seconds,
        )
        found = replan(situation, self.solve)
        for name in found.moved:
            self._left[name] = self._runs.pop(name).left_at(self.now)
        for name, slot in found.slots.items():
            if name not in self._runs:
                self._planned[name] = Assignment(
                    job=name,
                    mode=slot.option.mode,
                    pool=slot.option.pool,
                    start=round(self.now) + slot.start,
                    seconds=slot.option.seconds,
                    placement=slot.placement,
                )
                if slot.start == 0:
                    self._begin(self._planned[name])

    def _standing(self, name: str) -> Standing:
        run = self._runs.get(name)
        ratio = self._known.get(name, 1.0)  # of the real time to the estimate, the same for every type
        is_off = abs(ratio - 1) > NOTICED_ERROR
        return Standing(
            left=max(1e-6, run.left_at(self.now) if run else self._left[name]),
            ratios={pool.type: ratio for pool in self.plan.pools} if is_off else {},
            running=run.assignment if run else None,
            planned=self._planned[name],
        )

    def _begin(self, assignment: Assignment) -> None:
        name, way = assignment.job, assignment.mode.way
        modes = {mode.way: mode for job in self.plan.jobs if job.name == name for mode in job.modes}
        self._runs[name] = _Run(
            assignment=replace(assignment, mode=modes[way]),
            began=self.now,
            left=self._left[name],
            lost=self.switch_seconds if self._left[name] < 1 else 0,
            seconds=modes[way].seconds * self.factors[name],
        )
