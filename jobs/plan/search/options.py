"""List what a search chooses from: each job's modes in each pool, without those that another one beats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slipway.jobs.plan.search.model import Assignment, Goal, Mode, Objective, PlanJob, Pool, dollars_of
from slipway.jobs.words.run import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A mode of a job in a pool that has room for it."""

    mode: Mode
    pool: int
    devices: int
    nodes: int  # whole nodes that it takes; 0: devices inside one node
    seconds: int
    dollars: float

    @property
    def area(self) -> int:
        return self.devices * self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """Checked jobs, pools and goal, and the options of each job, the fewest devices first."""

    jobs: tuple[PlanJob, ...]
    pools: tuple[Pool, ...]
    goal: Goal
    options: tuple[tuple[Option, ...], ...]
    after: tuple[tuple[int, ...], ...]  # indexes of the jobs that each one waits for

    @property
    def capacity(self) -> list[int]:
        """Return the number of devices of each pool; 0 if no job can use the pool."""
        used = {option.pool for options in self.options for option in options}
        return [pool.devices if place in used else 0 for place, pool in enumerate(self.pools)]

    @property
    def only_devices_count(self) -> bool:
        """Return True if the plan has to be short, and jobs wait for nothing but devices."""
        return (
            self.goal.objective is Objective.MAKESPAN
            and self.goal.budget is None
            and not any(self.after)
            and all(job.deadline is None for job in self.jobs)
        )


ModeIn = Callable[[PlanJob, Mode, int], Mode]  # returns a mode as it runs in the pool of this index


def as_given(_job: PlanJob, mode: Mode, _pool: int) -> Mode:
    return mode


def new_problem(
    jobs: Sequence[PlanJob], pools: Sequence[Pool], goal: Goal, mode_in: ModeIn = as_given
) -> PlanProblem:
    """Build the problem from checked inputs."""
    places = {job.name: place for place, job in enumerate(jobs)}
    sure = jobs_with_deadlines(jobs)
    options = []
    for job in jobs:
        useful = list(options_of(job, pools, mode_in))
        if job.name in sure:  # it gets no spot nodes if there are others
            useful = [option for option in useful if not pools[option.pool].is_spot] or useful
        options.append(tuple(undominated(useful)))
    return PlanProblem(
        jobs=tuple(jobs),
        pools=tuple(pools),
        goal=goal,
        options=tuple(options),
        after=tuple(tuple(places[name] for name in job.depends_on) for job in jobs),
    )


def jobs_with_deadlines(jobs: Sequence[PlanJob]) -> frozenset[str]:
    """Return the names of jobs with a deadline of their own, and of all jobs that they depend on."""
    by_name = {job.name: job for job in jobs}
    found: set[str] = set()
    open_names = [job.name for job in jobs if job.deadline is not None]
    while open_names:
        if (name := open_names.pop()) not in found:
            found.add(name)
            open_names.extend(by_name[name].depends_on)
    return frozenset(found)


def options_of(job: PlanJob, pools: Sequence[Pool], mode_in: ModeIn = as_given) -> Iterator[Option]:
    """Yield each mode in each pool of its type that has room for it."""
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


def option_as_assigned(each: Assignment, pool: Pool) -> Option:
    """Return an assignment as an option, for a job whose mode and place are decided."""
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
    """Return the mode's seconds, plus the work that interruptions of a spot pool are expected to repeat."""
    if not pool.is_spot:
        return mode.seconds
    nodes = max(1, mode.devices // pool.devices_per_node)
    rework = pool.interruptions_per_hour / SECONDS_PER_HOUR * nodes * pool.rework_seconds
    return math.ceil(mode.seconds * (1 + rework))


def undominated(options: Iterable[Option]) -> Iterator[Option]:
    """Yield, pool by pool, the options that no other beats in devices, time and dollars."""
    kept: dict[int, int] = {}
    for option in sorted(
        options, key=lambda each: (each.devices, each.seconds, each.dollars, each.mode.technique)
    ):
        if option.seconds < kept.get(option.pool, option.seconds + 1):
            kept[option.pool] = option.seconds
            yield option


def _is_whole(mode: Mode, pool: Pool) -> bool:
    return mode.devices % pool.devices_per_node == 0
