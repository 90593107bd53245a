"""Attempt one plan: put jobs on lanes of one length, and those that no lane has room for into the gaps."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slipway.jobs.plan.search.first_plan import due_times
from slipway.jobs.plan.search.lanes.board import Board, Floats, Integers, Lane, Menu, PlacedLane, Worths
from slipway.jobs.plan.search.lanes.generation import Aim, Effort, Generation
from slipway.jobs.plan.search.list_schedule import Slot, list_schedule
from slipway.jobs.plan.search.options import PlanProblem

PENALTY = 10.0  # for twice the devices that there are, in units of the dollars of all jobs at their dearest
MOST_MISSING = 0.06  # share of the jobs without a lane: with more, shaving does not pay
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
        is_shavable = (
            self.problem.only_devices_count
            and not self._is_dollars
            and len(rest) <= MOST_MISSING * len(self.problem.jobs)
        )
        shaved = self._shaved(board.lanes(), chance) if is_shavable else []
        board.fill(sorted(rest, key=lambda job: (-areas[job], job)), horizon * ROUNDING)
        width = sum(int(self.menu.devices[lane.kind]) for lane in found)
        slots = self._in_order([board.slots[job] for job in range(len(areas))])
        return LanePlan(
            slots=min((slots, shaved or slots), key=lambda each: max(slot.end for slot in each)),
            lanes=found,
            need=width / float(aim.capacity.sum()),
        )

    def _shaved(self, lanes: Sequence[PlacedLane], chance: random.Random) -> list[Slot]:
        """Shorten the lanes, after the jobs without a lane are added to some."""
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


# Shorten lanes that are placed on nodes: move and swap jobs until no lane is longer than asked.
# The linear program leaves a little time free in each lane, and sometimes a job without one. Swaps join the
# free time of many lanes until the job has room. Each step makes the best of all moves, even if it makes the
# plan worse, and a job that has moved stays for a while: a tabu search (Glover, 1989).
NOT_THERE = 2**40  # seconds of a job on a lane where it does not run
STEPS = 1000  # the most for one limit; no more than there are jobs
REST = (5, 25)  # steps that a job stays after a move: least and most
FIRST, LAST = 0.01, 2e-4  # by which share to shorten the longest lane: more after a success


class Shaving:
    """Holds which lane each job is on, and how long each lane is."""

    def __init__(self, menu: Menu, kinds: Sequence[int], lane_of: Integers) -> None:
        """Begin with jobs on lanes of these kinds; a job on none goes where that makes the shortest lane."""
        by_kind = np.where(menu.seconds > 0, menu.seconds, NOT_THERE)
        self._seconds: Integers = by_kind[np.array(kinds, dtype=np.int64)]  # by lane and job
        self._of_job: Integers = np.ascontiguousarray(self._seconds.T)
        self.lane_of = lane_of.copy()
        self._loads = self._load()
        missing = np.flatnonzero(self.lane_of < 0)
        for job in missing[np.argsort(-self._of_job[missing].min(axis=1), kind="stable")]:
            lane = int((self._loads + self._of_job[job]).argmin())
            self.lane_of[job] = lane
            self._loads[lane] += self._of_job[job, lane]

    @property
    def longest(self) -> int:
        return int(self._loads.max())

    def shorten(self, chance: random.Random, keep_going: Callable[[], bool]) -> Integers:
        """Return the lane of each job in the shortest plan that was found."""
        best, longest = self.lane_of.copy(), self.longest
        shorter = FIRST
        while shorter > LAST and keep_going():
            if self._reach(longest * (1 - shorter), chance, keep_going):
                best, longest = self.lane_of.copy(), self.longest
                shorter *= 1.5
            else:
                self.lane_of = best.copy()
                self._loads = self._load()
                shorter /= 2
        return best

    def _reach(self, limit: float, chance: random.Random, keep_going: Callable[[], bool]) -> bool:
        stays = np.zeros(len(self.lane_of), dtype=np.int64)  # the step until which each job stays
        for step in range(min(STEPS, len(self.lane_of))):
            if self.longest <= limit:
                return True
            if not keep_going():
                break
            self._step(limit, step, stays, chance)
        return False

    def _step(self, limit: float, step: int, stays: Integers, chance: random.Random) -> None:
        long = np.flatnonzero(self._loads > limit)
        lane = int(long[chance.randrange(len(long))])
        jobs = np.flatnonzero((self.lane_of == lane) & (stays <= step))
        if not len(jobs):
            jobs = np.flatnonzero(self.lane_of == lane)
        moves, swaps = self._moves(lane, jobs, limit), self._swaps(lane, jobs, limit)
        swaps[:, stays > step] = np.inf
        until = step + chance.randint(*REST)
        if moves.min() <= swaps.min():
            job, to = _least(moves, chance)
            self._put(int(jobs[job]), to)
        else:
            job, other = _least(swaps, chance)
            to = self.lane_of[other]
            self._put(int(jobs[job]), int(to))
            self._put(other, lane)
            stays[other] = until
        stays[jobs[job]] = until

    def _load(self) -> Integers:
        placed = np.flatnonzero(self.lane_of >= 0)
        lanes = self.lane_of[placed]
        seconds = self._seconds[lanes, placed]
        return np.bincount(lanes, weights=seconds, minlength=len(self._seconds)).astype(np.int64)

    def _put(self, job: int, lane: int) -> None:
        self._loads[self.lane_of[job]] -= self._of_job[job, self.lane_of[job]]
        self._loads[lane] += self._of_job[job, lane]
        self.lane_of[job] = lane

    def _moves(self, lane: int, jobs: Integers, limit: float) -> Floats:
        """Return how much worse each move makes the plan, by job of the lane and target lane."""
        freed = self._loads[lane] - self._of_job[jobs, lane]
        there = _late(self._loads + self._of_job[jobs], limit) - _late(self._loads, limit)
        found: Floats = _late(freed, limit)[:, None] + there - _late(self._loads[lane], limit)
        found[:, lane] = np.inf
        return found

    def _swaps(self, lane: int, jobs: Integers, limit: float) -> Floats:
        """Return how much worse each swap makes the plan, by job of the lane and any other job."""
        lanes = self.lane_of
        loads = self._loads[lanes]
        own = self._of_job[np.arange(len(lanes)), lanes]
        freed = self._loads[lane] - self._of_job[jobs, lane]
        here = _late(freed[:, None] + self._seconds[lane], limit)
        there = _late(loads - own + self._of_job[jobs][:, lanes], limit)
        found: Floats = here + there - _late(loads, limit) - _late(self._loads[lane], limit)
        found[:, lanes == lane] = np.inf
        return found


def _least(costs: Floats, chance: random.Random) -> tuple[int, int]:
    """Return one of the places of the least cost, at random."""
    rows, columns = np.nonzero(costs == costs.min())
    place = chance.randrange(len(rows))
    return int(rows[place]), int(columns[place])


def _late(loads: Integers, limit: float) -> Floats:
    found: Floats = np.maximum(loads - limit, 0.0)
    return found


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
        lanes = _fix(generation, chance)
        state.fixed.extend(lanes)
        state.left.difference_update(job for lane in lanes for job in lane.jobs)
        if not state.left:
            break
        generation.shares = generation.master.solve()
        if not generation.converge(generation.effort.dive_rounds):
            return False
    return True


def _fix(generation: Generation, chance: random.Random) -> list[Lane]:
    """Fix the most used lanes, several if the program is sure, and close the lanes with their jobs."""
    shares = generation.shares.lanes
    used = np.flatnonzero(shares > 1e-6)
    preferred = sorted((-float(shares[lane]) + 0.05 * chance.random(), int(lane)) for lane in used)
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
