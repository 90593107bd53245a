"""One attempt at a plan: big jobs on lanes of one length, the small ones in the gaps that are left."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slipway.jobs.plan.search.lanes.board import Board, PlacedLane, Worths
from slipway.jobs.plan.search.lanes.diving import dive
from slipway.jobs.plan.search.lanes.generation import Effort, Generation
from slipway.jobs.plan.search.lanes.lane import Floats, Lane, Menu
from slipway.jobs.plan.search.lanes.master import Aim
from slipway.jobs.plan.search.lanes.shaving import Shaving
from slipway.jobs.plan.search.list_schedule import Slot, list_schedule
from slipway.jobs.plan.search.model import Objective
from slipway.jobs.plan.search.options import PlanProblem

PENALTY = 10.0  # for needing as many devices again, in the dollars of all jobs at their dearest
MOST_MISSING = 0.06  # of the jobs: with more, lanes are worth less than the gaps between them
ROUNDING = 1.0005  # lanes are filled in coarse time, and may end so much later


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTrial:
    """Says what to attempt: the length of lanes, and the share of all area that is left to small jobs."""

    horizon: float
    small: float
    spare: float = 0.0  # share of the devices that the program may not use
    effort: Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePlan:
    """A whole schedule, the lanes that it came from, and the share of all devices that they need."""

    slots: list[Slot]
    lanes: list[Lane]
    need: float


class Attempts:
    """Makes attempts at one problem."""

    def __init__(
        self, problem: PlanProblem, menu: Menu, worths: Worths, keep_going: Callable[[], bool]
    ) -> None:
        self.problem = problem
        self.menu = menu
        self._worths = worths
        self._is_dollars = problem.goal.objective is Objective.COST
        self._keep_going = keep_going

    def make(self, trial: LaneTrial, lanes: list[Lane], chance: random.Random) -> LanePlan | None:
        """Follow a trial, with lanes known from others; None when there is no time left."""
        areas = self.menu.areas(trial.horizon).min(axis=0)
        small = self._small(areas, trial.small)
        big = sorted(set(range(len(areas))) - set(small))
        generation = Generation(self.menu, trial.horizon, trial.effort, self._keep_going)
        aim = self._aim(float(areas[small].sum()) / trial.horizon, trial.spare)
        known = [lane for lane in lanes if self.menu.length(lane) <= trial.horizon * ROUNDING]
        found = dive(generation, big, aim, known, chance)
        if found is None:
            return None
        board = Board(self.problem, self.menu, self._worths)
        rest = board.place(found, self._urgency)
        shaved = self._shaved(board.lanes(), chance) if self._is_shavable(rest, small) else []
        board.fill(sorted([*rest, *small], key=lambda job: (-areas[job], job)), trial.horizon * ROUNDING)
        width = sum(int(self.menu.devices[lane.kind]) for lane in found)
        slots = self._in_order([board.slots[job] for job in range(len(areas))])
        return LanePlan(
            slots=min((slots, shaved or slots), key=lambda each: max(slot.end for slot in each)),
            lanes=found,
            need=(width + float(aim.reserved.sum())) / float(aim.capacity.sum()),
        )

    def _is_shavable(self, rest: Sequence[int], small: Sequence[int]) -> bool:
        """Tell whether only the last end counts, and nearly all jobs are on lanes."""
        return (
            not self._is_dollars
            and self.problem.goal.budget is None
            and not any(self.problem.after)
            and all(job.deadline is None for job in self.problem.jobs)
            and len(rest) + len(small) <= MOST_MISSING * len(self.problem.jobs)
        )

    def _shaved(self, lanes: Sequence[PlacedLane], chance: random.Random) -> list[Slot]:
        """Shorten the lanes, with the jobs that have none on any of them."""
        lane_of = np.full(len(self.problem.jobs), -1, dtype=np.int64)
        for place, lane in enumerate(lanes):
            lane_of[list(lane.jobs)] = place
        found = Shaving(self.menu, [lane.kind for lane in lanes], lane_of).shorten(chance, self._keep_going)
        slots: dict[int, Slot] = {}
        for place, lane in enumerate(lanes):
            start = 0
            for job in sorted(np.flatnonzero(found == place).tolist(), key=self._urgency):
                option = self.menu.options[lane.kind, job]
                slots[job] = Slot(option=option, start=start, placement=lane.placement)
                start = slots[job].end
        return [slots[job] for job in range(len(lane_of))]

    def _in_order(self, slots: list[Slot]) -> list[Slot]:
        """Let jobs wait for those that they depend on: the same options, begun one after the other."""
        if not any(self.problem.after):
            return slots
        choice = [
            options.index(slot.option) for options, slot in zip(self.problem.options, slots, strict=True)
        ]
        order = sorted(range(len(slots)), key=lambda job: (slots[job].start, job))
        return list_schedule(self.problem, choice, order)

    def _small(self, areas: Floats, share: float) -> list[int]:
        order = np.argsort(areas, kind="stable")
        inside = np.cumsum(areas[order]) <= share * areas.sum()
        return [int(job) for job in order[inside]]

    def _aim(self, devices: float, spare: float) -> Aim:
        capacity = self.menu.capacity
        if self._is_dollars:
            most = float(self.menu.dollars.max(axis=0).sum())
            reserved = capacity * min(0.9, devices / capacity.sum() + spare)
            return Aim(capacity=capacity, reserved=reserved, is_dollars=True, penalty=PENALTY * most)
        return Aim(
            capacity=capacity,
            reserved=devices * capacity / capacity.sum(),
            penalty=float(capacity.sum()),
        )

    def _urgency(self, job: int) -> tuple[float, ...]:
        """Order jobs of a lane: deadlines first, then priorities, then the longest."""
        asked = self.problem.jobs[job]
        deadline = float("inf") if asked.deadline is None else float(asked.deadline)
        return (deadline, -asked.priority, job)
