"""Plan again what is left: a running job stays unless moving it gains more than twice what the move costs.

Times of the new plan count from now. Saved work is kept, so only the share of each job that is left is
planned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from slipway.jobs.plan.search.list_schedule import FreeDevices, Slot, place_in_order
from slipway.jobs.plan.search.model import Assignment, Goal, Mode, NodeDevices, Objective, PlanJob, Pool
from slipway.jobs.plan.search.options import Option, PlanProblem, new_problem, option_as_assigned, options_of
from slipway.jobs.words.run import SECONDS_PER_HOUR

# A move must gain this many times what it costs: estimates of both are not exact.
LEAST_GAIN = 2

Solve = Callable[[PlanProblem], Sequence[Slot]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Holds how far a job has come that has not ended."""

    left: float = 1.0  # the share of its work that is not saved
    ratios: Mapping[str, float] = field(default_factory=dict)  # by instance type: its time over the estimate
    running: Assignment | None = None  # where it runs; None: it is waiting
    planned: Assignment | None = None  # its place in the current plan
    saved_in: frozenset[int] | None = None  # the only pools that can read its checkpoints; None: all can
    must_stay: bool = False  # it has just begun, and its pace is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Holds what is known at the moment of planning again."""

    jobs: tuple[PlanJob, ...]  # those that have not ended
    pools: tuple[Pool, ...]
    goal: Goal
    standings: Mapping[str, Standing]
    switch_seconds: int  # to stop, save and begin elsewhere
    lost: frozenset[tuple[int, int]] = frozenset()  # (pool, node) pairs that take no job


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned:
    slots: Mapping[str, Slot]  # by job
    homeless: tuple[str, ...]  # jobs that fit no pool since nodes were lost, and those that depend on them
    moved: tuple[str, ...]  # running jobs with another place or mode
    value: float


def replan(situation: Situation, solve: Solve) -> Replanned:
    """Return the better of two plans: running jobs stay, or some of them move and that is worth it."""
    situation, homeless = _without_homeless(situation)
    problem = _what_is_left(situation)
    wishes = _Wishes.of(problem, solve(problem))
    everybody = frozenset(
        place for place, job in enumerate(problem.jobs) if situation.standings[job.name].running
    )
    planned = _Wishes.planned(problem, situation)
    staying = min(
        (_settled(situation, problem, each, everybody) for each in (planned, wishes)),
        key=lambda slots: _value(situation, slots),
    )
    pinned = frozenset(
        place
        for place in everybody
        if situation.standings[problem.jobs[place].name].must_stay
        or _is_current(situation, problem, wishes, place)
    )
    moving, pinned = _with_fewest_moves(situation, problem, wishes, everybody, pinned)
    moves = tuple(problem.jobs[place].name for place in sorted(everybody - pinned))
    gain = _value(situation, staying) - _value(situation, moving)
    is_worth_it = bool(moves) and gain > LEAST_GAIN * _cost_of_moving(situation)
    slots = moving if is_worth_it else staying
    return Replanned(
        slots={job.name: slot for job, slot in zip(problem.jobs, slots, strict=True)},
        homeless=homeless,
        moved=moves if is_worth_it else (),
        value=_value(situation, slots),
    )


def _without_homeless(situation: Situation) -> tuple[Situation, tuple[str, ...]]:
    """Leave out jobs that fit nowhere now, and those that depend on them."""
    pools = _without_lost(situation)
    homeless = {
        job.name
        for job in situation.jobs
        if not situation.standings[job.name].running and not any(options_of(job, pools))
    }
    while more := {
        job.name for job in situation.jobs if job.name not in homeless and homeless & set(job.depends_on)
    }:
        homeless |= more
    jobs = tuple(job for job in situation.jobs if job.name not in homeless)
    return replace(situation, jobs=jobs), tuple(job.name for job in situation.jobs if job.name in homeless)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    """Each job's option, and the order in which they are placed."""

    choice: tuple[Option, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, problem: PlanProblem, slots: Sequence[Slot]) -> _Wishes:
        order = sorted(range(len(problem.jobs)), key=lambda place: (slots[place].start, place))
        return cls(choice=tuple(slot.option for slot in slots), order=tuple(order))

    @classmethod
    def planned(cls, problem: PlanProblem, situation: Situation) -> _Wishes:
        """Take the current plan; a job that is not in it comes last, on its fewest devices."""
        choice, starts = [], []
        for place, job in enumerate(problem.jobs):
            planned = situation.standings[job.name].planned
            fitting = [
                option
                for option in problem.options[place]
                if planned and (option.pool, option.mode.way) == (planned.pool, planned.mode.way)
            ]
            choice.append(fitting[0] if fitting else problem.options[place][0])
            starts.append((planned.start if planned else math.inf, place))
        return cls(choice=tuple(choice), order=tuple(place for _, place in sorted(starts)))


def _what_is_left(situation: Situation) -> PlanProblem:
    names = {job.name for job in situation.jobs}
    left = [
        replace(job, depends_on=tuple(name for name in job.depends_on if name in names))
        for job in situation.jobs
    ]
    return new_problem(left, _without_lost(situation), situation.goal, partial(_left_in, situation))


def _without_lost(situation: Situation) -> list[Pool]:
    counts = [sum(pool == place for pool, _ in situation.lost) for place in range(len(situation.pools))]
    return [
        replace(pool, nodes=pool.nodes - lost) for pool, lost in zip(situation.pools, counts, strict=True)
    ]


def _left_in(situation: Situation, job: PlanJob, mode: Mode, pool: int) -> Mode:
    standing = situation.standings[job.name]
    left = standing.left if standing.saved_in is None or pool in standing.saved_in else 1.0
    seconds = math.ceil(mode.seconds * left * standing.ratios.get(mode.type, 1.0))
    running = standing.running
    is_where_it_runs = running is not None and (running.pool, running.mode.way) == (pool, mode.way)
    begins_again = standing.left < 1 or running is not None
    cost = situation.switch_seconds if begins_again and not is_where_it_runs else 0
    return replace(mode, seconds=max(1, seconds + cost))


def _settled(
    situation: Situation, problem: PlanProblem, wishes: _Wishes, pinned: frozenset[int]
) -> list[Slot]:
    """Place the jobs that stay where they are, and then the others in their order."""
    free = [FreeDevices(pool) for pool in situation.pools]
    slots = {}
    for place in pinned:
        job = problem.jobs[place]
        running = situation.standings[job.name].running
        assert running is not None
        given = next(mode for mode in job.modes if mode.way == running.mode.way)
        mode = _left_in(situation, job, given, running.pool)
        left = replace(running, mode=mode, seconds=mode.seconds)
        option = option_as_assigned(left, situation.pools[running.pool])
        slots[place] = Slot(option=option, start=0, placement=running.placement)
        free[option.pool].take(running.placement, slots[place].end)
    horizon = 1 + sum(max(option.seconds for option in options) for options in problem.options)
    for pool, node in situation.lost:
        every = tuple(range(situation.pools[pool].devices_per_node))
        free[pool].take([NodeDevices(node=node, devices=every)], horizon)
    return place_in_order(problem, wishes.choice, wishes.order, free, slots)


def _with_fewest_moves(
    situation: Situation,
    problem: PlanProblem,
    wishes: _Wishes,
    everybody: frozenset[int],
    pinned: frozenset[int],
) -> tuple[list[Slot], frozenset[int]]:
    """Leave each running job where it is if that makes the plan no worse."""
    slots = _settled(situation, problem, wishes, pinned)
    for place in sorted(everybody - pinned):
        without = _settled(situation, problem, wishes, pinned | {place})
        if _value(situation, without) <= _value(situation, slots):
            slots, pinned = without, pinned | {place}
    return slots, pinned


def _value(situation: Situation, slots: Sequence[Slot]) -> float:
    if situation.goal.objective is Objective.COST:
        return sum(slot.option.dollars for slot in slots)
    return float(max((slot.end for slot in slots), default=0))


def _cost_of_moving(situation: Situation) -> float:
    """Return the cost of one move in the goal's unit; the plans themselves include the seconds of moves."""
    if situation.goal.objective is Objective.COST:
        return (
            max(pool.price_per_hour for pool in situation.pools) / SECONDS_PER_HOUR * situation.switch_seconds
        )
    return float(situation.switch_seconds)


def _is_current(situation: Situation, problem: PlanProblem, wishes: _Wishes, place: int) -> bool:
    running = situation.standings[problem.jobs[place].name].running
    option = wishes.choice[place]
    return running is not None and (option.pool, option.mode.way) == (running.pool, running.mode.way)
