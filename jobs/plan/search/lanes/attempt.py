"""Attempt one plan: put jobs on lanes of one length, and those that no lane has room for into the gaps."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slipway.jobs.plan.search.first_plan import due_times
from slipway.jobs.plan.search.lanes.board import Board, Floats, Lane, Menu, Worths
from slipway.jobs.plan.search.lanes.generation import Aim, Effort, Generation
from slipway.jobs.plan.search.list_schedule import Slot, list_schedule
from slipway.jobs.plan.search.options import PlanProblem

PENALTY = 10.0  # for twice the devices that there are, in units of the dollars of all jobs at their dearest
ROUNDING = 1.0005  # lanes are filled in coarse time, and may end later by this factor


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTrial:
    """Holds what to attempt: the length of lanes, and how many devices they leave free."""

    horizon: float
    spare: float = 0.0  # share of the devices that the linear program may not use
    effort: Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePlan:
    """Holds a whole schedule, the lanes that it came from, and the share of all devices that they need."""

    slots: list[Slot]
    lanes: list[Lane]
    need: float


class Attempts:
    """Makes attempts at a plan for one problem."""

    def __init__(
        self, problem: PlanProblem, menu: Menu, worths: Worths, keep_going: Callable[[], bool]
    ) -> None:
        self.problem = problem
        self.menu = menu
        self._due = due_times(problem)
        self._worths = worths
        self._is_dollars = worths.are_dollars
        self._keep_going = keep_going

    def make(self, trial: LaneTrial, lanes: list[Lane], chance: random.Random) -> LanePlan | None:
        """Make the plan of a trial, starting from known lanes; return None if no time is left."""
        horizon = max(trial.horizon, self.menu.longest_job)
        areas = self.menu.areas(horizon).min(axis=0)
        generation = Generation(self.menu, horizon, trial.effort, self._keep_going)
        aim = self._aim(trial.spare)
        known = [lane for lane in lanes if self.menu.length(lane) <= horizon * ROUNDING]
        found = dive(generation, range(len(areas)), aim, known, chance)
        if found is None:
            return None
        board = Board(self.problem, self.menu, self._worths)
        rest = board.place(found, self._urgency)
        board.fill(sorted(rest, key=lambda job: (-areas[job], job)), horizon * ROUNDING)
        width = sum(int(self.menu.devices[lane.kind]) for lane in found)
        slots = self._in_order([board.slots[job] for job in range(len(areas))])
        return LanePlan(
            slots=slots,
            lanes=found,
            need=width / float(aim.capacity.sum()),
        )

    def _in_order(self, slots: list[Slot]) -> list[Slot]:
        """Place the same options again in order of start, so that jobs wait for those that they depend on."""
        if not any(self.problem.after):
            return slots
        choice = [
            options.index(slot.option) for options, slot in zip(self.problem.options, slots, strict=True)
        ]
        order = sorted(range(len(slots)), key=lambda job: (slots[job].start, job))
        return list_schedule(self.problem, choice, order)

    def _aim(self, spare: float) -> Aim:
        capacity = self.menu.capacity
        if self._is_dollars:
            most = float(self.menu.dollars.max(axis=0).sum())
            return Aim(capacity=capacity * (1 - spare), is_dollars=True, penalty=PENALTY * most)
        return Aim(capacity=capacity, penalty=float(capacity.sum()))

    def _urgency(self, job: int) -> tuple[float, ...]:
        """Return the order of a job in its lane: deadlines first, then priorities, then the longest."""
        return (self._due[job], -self.problem.jobs[job].priority, job)


# Round the linear program to whole lanes: fix the best, generate again, and add jobs as room appears.
SURE = 0.5  # lanes whose share in the program is at least this are fixed together


@dataclass(slots=True, kw_only=True)
class Dive:
    """Holds the lanes that are fixed so far, and the jobs that wait outside the program."""

    waiting: list[int]
    left: set[int]
    fixed: list[Lane]
    known: list[Lane]


def dive(
    generation: Generation, jobs: Sequence[int], aim: Aim, lanes: Sequence[Lane], chance: random.Random
) -> list[Lane] | None:
    """Put all jobs on whole lanes; return None if no time is left."""
    order = list(jobs)
    chance.shuffle(order)
    size = generation.effort.window
    state = Dive(waiting=order[size:], left=set(order[:size]), fixed=[], known=list(lanes))
    while state.left:
        generation.open(sorted(state.left), share_of(generation, aim, state), state.known)
        if not generation.converge() or not _fix_until_few(generation, state, chance):
            return None
        state.known = generation.master.lanes
        fresh = size - len(state.left)
        state.left.update(state.waiting[:fresh])
        state.waiting = state.waiting[fresh:]
    return state.fixed


def share_of(generation: Generation, aim: Aim, state: Dive) -> Aim:
    """Return the aim for the jobs in the program: their share of the devices, by area."""
    if not state.waiting:
        share = 1.0
    else:
        least = generation.menu.areas(generation.horizon).min(axis=0)
        inside, outside = (float(least[list(jobs)].sum()) for jobs in (state.left, state.waiting))
        share = inside / (inside + outside)
    used = np.zeros_like(aim.capacity)
    for lane in state.fixed:
        used[generation.menu.pools[lane.kind]] += generation.menu.devices[lane.kind]
    free = np.maximum(aim.capacity - used, 1e-3 * aim.capacity)
    return Aim(
        capacity=free * share,
        is_dollars=aim.is_dollars,
        penalty=aim.penalty if aim.is_dollars else float((free * share).sum()),
    )


def _fix_until_few(generation: Generation, state: Dive, chance: random.Random) -> bool:
    few = generation.effort.refill * generation.effort.window if state.waiting else 0
    while len(state.left) > few:
        lanes = _fix(generation, _preferred(generation.shares.lanes, chance))
        state.fixed.extend(lanes)
        state.left.difference_update(job for lane in lanes for job in lane.jobs)
        if not state.left:
            break
        generation.shares = generation.master.solve()
        if not generation.converge(generation.effort.dive_rounds):
            return False
    return True


def _preferred(shares: Floats, chance: random.Random) -> list[tuple[float, int]]:
    used = np.flatnonzero(shares > 1e-6)
    return sorted((-float(shares[lane]) + 0.05 * chance.random(), int(lane)) for lane in used)


def _fix(generation: Generation, preferred: list[tuple[float, int]]) -> list[Lane]:
    """Fix the most used lanes, several if the program is sure, and close the lanes with their jobs."""
    limit = max(1, int(generation.alive.sum() * generation.effort.step))
    fixed: list[Lane] = []
    for share, place in preferred:
        if fixed and (-share < SURE or len(fixed) >= limit):
            break
        lane = generation.master.lanes[place]
        rows = np.searchsorted(generation.jobs, lane.jobs)
        if generation.alive[rows].all():
            generation.alive[rows] = False
            generation.master.fix(place)
            fixed.append(lane)
    generation.close_broken(fixed)
    return fixed
