"""What a search chooses from: for each job, its modes in each pool, without those that another one beats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slipway.jobs.plan.search.model import Assignment, Goal, Mode, PlanJob, Pool, dollars_of
from slipway.jobs.words.run import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A mode of a job in a pool that has room for it."""

    mode: Mode
    pool: int
    devices: int
    nodes: int  # whole nodes that it takes; 0: some devices of one
    seconds: int
    dollars: float

    @property
    def area(self) -> int:
        return self.devices * self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """Jobs, pools and a goal that were found right, and the options of each job, the fewest devices first."""

    jobs: tuple[PlanJob, ...]
    pools: tuple[Pool, ...]
    goal: Goal
    options: tuple[tuple[Option, ...], ...]
    after: tuple[tuple[int, ...], ...]  # places of the jobs that each one waits for

    @property
    def capacity(self) -> list[int]:
        """Return the devices of each pool; none of one that no job can use."""
        used = {option.pool for options in self.options for option in options}
        return [pool.devices if place in used else 0 for place, pool in enumerate(self.pools)]


ModeIn = Callable[[PlanJob, Mode, int], Mode]  # returns what a mode of a job takes in one of the pools


def as_given(_job: PlanJob, mode: Mode, _pool: int) -> Mode:
    return mode


def new_problem(
    jobs: Sequence[PlanJob], pools: Sequence[Pool], goal: Goal, mode_in: ModeIn = as_given
) -> PlanProblem:
    """Build the problem of inputs that were checked before."""
    places = {job.name: place for place, job in enumerate(jobs)}
    sure = jobs_with_deadlines(jobs)
    return PlanProblem(
        jobs=tuple(jobs),
        pools=tuple(pools),
        goal=goal,
        options=tuple(_options(job, pools, job.name in sure, mode_in) for job in jobs),
        after=tuple(tuple(places[name] for name in job.depends_on) for job in jobs),
    )


def jobs_with_deadlines(jobs: Sequence[PlanJob]) -> frozenset[str]:
    """Name the jobs that have a deadline of their own, and all that those wait for."""
    by_name = {job.name: job for job in jobs}
    found: set[str] = set()
    open_names = [job.name for job in jobs if job.deadline is not None]
    while open_names:
        if (name := open_names.pop()) not in found:
            found.add(name)
            open_names.extend(by_name[name].depends_on)
    return frozenset(found)


def options_of(job: PlanJob, pools: Sequence[Pool], mode_in: ModeIn = as_given) -> Iterator[Option]:
    """Yield each mode in each pool of its type that has room."""
    for given in job.modes:
        for place, pool in enumerate(pools):
            if pool.type == given.type and has_room(given, pool):
                mode = mode_in(job, given, place)
                seconds = expected_seconds(mode, pool)
                yield Option(
                    mode=mode,
                    pool=place,
                    devices=mode.devices,
                    nodes=mode.devices // pool.devices_per_node if _is_whole(mode, pool) else 0,
                    seconds=seconds,
                    dollars=dollars_of(mode, pool, seconds),
                )


def _options(job: PlanJob, pools: Sequence[Pool], is_sure: bool, mode_in: ModeIn) -> tuple[Option, ...]:
    """Return the options worth a look: nobody can promise a deadline on spot nodes, if there are others."""
    every = list(options_of(job, pools, mode_in))
    on_demand = [option for option in every if not pools[option.pool].is_spot]
    return tuple(undominated(iter(on_demand if is_sure and on_demand else every)))


def option_as_assigned(each: Assignment, pool: Pool) -> Option:
    """Return the one option of a job whose mode and place are decided."""
    return Option(
        mode=each.mode,
        pool=each.pool,
        devices=each.mode.devices,
        nodes=len(each.placement) if each.mode.devices > pool.devices_per_node else 0,
        seconds=each.seconds,
        dollars=dollars_of(each.mode, pool, each.seconds),
    )


def has_room(mode: Mode, pool: Pool) -> bool:
    if mode.devices <= pool.devices_per_node:
        return pool.nodes > 0
    return _is_whole(mode, pool) and pool.spans_nodes and mode.devices <= pool.devices


def expected_seconds(mode: Mode, pool: Pool) -> int:
    """Add what interruptions of a spot pool are expected to repeat."""
    if not pool.is_spot:
        return mode.seconds
    nodes = max(1, mode.devices // pool.devices_per_node)
    rework = pool.interruptions_per_hour / SECONDS_PER_HOUR * nodes * pool.rework_seconds
    return math.ceil(mode.seconds * (1 + rework))


def undominated(options: Iterator[Option]) -> Iterator[Option]:
    """Yield, pool by pool, options that no other one beats: with no more devices, time and dollars."""
    kept: dict[int, int] = {}
    for option in sorted(
        options, key=lambda each: (each.devices, each.seconds, each.dollars, each.mode.technique)
    ):
        if option.seconds < kept.get(option.pool, option.seconds + 1):
            kept[option.pool] = option.seconds
            yield option


def _is_whole(mode: Mode, pool: Pool) -> bool:
    return mode.devices % pool.devices_per_node == 0
