"""Make the first plan, from which every search starts: the best of some list schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from slipway.jobs.plan.search.bounds.prove import least_makespan
from slipway.jobs.plan.search.bounds.table import NEVER, Numbers, OptionTable
from slipway.jobs.plan.search.list_schedule import FreeDevices, Slot, after_dependencies, score_of
from slipway.jobs.plan.search.model import Billing, Objective
from slipway.jobs.plan.search.options import Option, PlanProblem

# Orders of jobs: which one gives the best plan differs from problem to problem.
ORDERS: tuple[Callable[[Option], tuple[int, ...]], ...] = (
    lambda option: (option.seconds,),
    lambda option: (option.area,),
    lambda option: (option.devices, option.seconds),
)
# How long a plan may take, as a multiple of the area bound: a few guesses, then all between.
STRETCHES = (1.01, 1.04, 1.08, 1.0, 1.02, 1.06, 1.12, 1.2, 1.3, *(1 + step / 200 for step in range(80)))
NODE_SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)  # shares of the nodes to use, if whole nodes are billed
AREA_WEIGHTS = (0.0, 0.3, 1.0, 3.0)  # weights of device-seconds besides dollars
DOLLAR_WEIGHTS = (0.0, 1.0, 4.0, 16.0)  # weights of dollars besides area, if there is a budget
PLACED_JOBS = 12_000  # in all trials together: as many as fit into a second


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyTrial:
    """Holds which options jobs try first, when they should end, and the share of the nodes that they use."""

    paid: Numbers
    limit: int
    share: float = 1.0


def greedy(problem: PlanProblem) -> list[Slot]:
    """Return the best of some schedules in which each job takes the cheapest option that ends in time."""
    if not problem.jobs:
        return []
    found: list[Slot] | None = None
    least: tuple[float, ...] = ()
    for count, (trial, order) in enumerate(_lists(problem)):
        if found is not None and count * len(problem.jobs) >= PLACED_JOBS:
            break
        slots = _place(problem, trial, order)
        score = score_of(problem, slots)
        if found is None or score < least:
            found, least = slots, score
    assert found is not None, "there is always one list to try"
    return found


def first_ending(problem: PlanProblem, order: Sequence[int]) -> list[Slot]:
    """Place each job in turn where it ends first."""
    return _place(problem, GreedyTrial(paid=OptionTable(problem).dollars, limit=0), order)


def _lists(problem: PlanProblem) -> Iterator[tuple[GreedyTrial, list[int]]]:
    due = due_times(problem)
    for trial in _trials(problem):
        first = [ranked[0] for ranked in _ranked(problem, trial)]
        for key in ORDERS:
            order = sorted(range(len(first)), key=lambda job: key(first[job]), reverse=True)
            if min(due) < NEVER:
                yield trial, sorted(order, key=due.__getitem__)
            yield trial, order


def _trials(problem: PlanProblem) -> Iterator[GreedyTrial]:
    table = OptionTable(problem)
    bound, prices = least_makespan(table)
    seconds = prices.of(table)
    per_dollar = seconds.min(axis=1).sum() / max(table.dollars.min(axis=1).sum(), 1e-9)
    shares = NODE_SHARES if problem.goal.billing is Billing.NODE else (1.0,)
    if problem.goal.objective is Objective.COST:
        limit = NEVER if problem.goal.deadline is None else problem.goal.deadline
        for share in shares:
            for weight in AREA_WEIGHTS:
                yield GreedyTrial(
                    paid=table.dollars * per_dollar + weight * seconds, limit=limit, share=share
                )
        return
    for stretch in STRETCHES:
        for weight in (0.0,) if problem.goal.budget is None else DOLLAR_WEIGHTS:
            paid = seconds + weight * per_dollar * table.dollars
            yield from (GreedyTrial(paid=paid, limit=int(bound * stretch), share=share) for share in shares)


def _ranked(problem: PlanProblem, trial: GreedyTrial) -> list[list[Option]]:
    """Sort each job's options: first those that can end in time, the cheapest before the others."""
    ranked = []
    for options, paid in zip(problem.options, trial.paid.tolist(), strict=True):
        order = sorted(range(len(options)), key=lambda at: (options[at].seconds > trial.limit, paid[at]))
        ranked.append([options[at] for at in order])
    return ranked


def _place(problem: PlanProblem, trial: GreedyTrial, order: Sequence[int]) -> list[Slot]:
    """Place each job in its first option that ends in time, or else in the one that ends first."""
    # Use a share of each pool's nodes, but at least what any job needs.
    needed = max(1, *(min(option.nodes for option in options) for options in problem.options))
    pools = [
        replace(pool, nodes=min(pool.nodes, max(needed, math.ceil(pool.nodes * trial.share))))
        for pool in problem.pools
    ]
    free = [FreeDevices(pool) for pool in pools]
    ranked = [
        [option for option in options if option.nodes <= pools[option.pool].nodes]
        for options in _ranked(problem, trial)
    ]
    slots: dict[int, Slot] = {}
    due = due_times(problem)
    for job in after_dependencies(problem, order):
        ready = max((slots[before].end for before in problem.after[job]), default=0)
        option = _choose(ranked[job], free, ready, min(trial.limit, due[job]))
        start, placement = free[option.pool].earliest(option, ready)
        free[option.pool].take(placement, start + option.seconds)
        slots[job] = Slot(option=option, start=start, placement=placement)
    return [slots[job] for job in range(len(problem.jobs))]


def due_times(problem: PlanProblem) -> list[int]:
    """Return when each job has to end, so that the jobs that depend on it can keep their deadlines, too."""
    due = [NEVER if job.deadline is None else job.deadline for job in problem.jobs]
    for job in reversed(list(after_dependencies(problem, range(len(due))))):
        quickest = min(option.seconds for option in problem.options[job])
        for before in problem.after[job] if due[job] < NEVER else ():
            due[before] = min(due[before], due[job] - quickest)
    return due


def _choose(ranked: Sequence[Option], free: Sequence[FreeDevices], ready: int, limit: int) -> Option:
    ends = []
    for option in ranked:
        end = free[option.pool].first_start(option, ready) + option.seconds
        if end <= limit:
            return option
        ends.append(end)
    return ranked[ends.index(min(ends))]
