"""Improve a plan by annealing: walks that grow longer, each from the best plan so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from slipway.jobs.plan.search.annealing.compiled import (
    NEVER,
    Ints,
    Tables,
    Walk,
    desk_of,
    steps,
    tables_of,
    worth,
)
from slipway.jobs.plan.search.baselines import score_of
from slipway.jobs.plan.search.list_schedule import Slot, list_schedule
from slipway.jobs.plan.search.model import Objective
from slipway.jobs.plan.search.options import Option, PlanProblem

PLACEMENTS_A_CHUNK = 200_000  # jobs that are placed between two looks at the clock: some 20 ms
FIRST_WALK = 20_000  # steps
HOT, WARM, COLD = 0.05, 0.02, 0.0001  # as a share of the plan's worth
MOST_STEPS = 3_000_000
# Orders that may lead back to a plan: which one does depends on how its nodes were filled.
ORDERS: tuple[Callable[[Slot], tuple[int, ...]], ...] = (
    lambda slot: (slot.start, slot.option.pool, slot.placement[0].node),
    lambda slot: (slot.start, -slot.option.devices, -slot.option.seconds),
    lambda slot: (slot.start, -slot.option.seconds),
    lambda slot: (slot.start,),
    lambda slot: (-slot.option.seconds,),
)


def improve(
    problem: PlanProblem,
    *,
    seed: int,
    keep_going: Callable[[], bool],
    found: Callable[[Sequence[Slot]], None],
    start: Sequence[Slot] | None = None,
) -> None:
    """Tell of each better plan until it shall not keep going; same seed, same plans."""
    order, choice = _first(problem, start)
    slots = start or list_schedule(problem, list(choice), list(order))
    if not start:
        found(slots)
    tables = tables_of(problem, max(slot.end for slot in slots), sum(slot.option.dollars for slot in slots))
    walk = _new_walk(tables, order, choice, seed)
    _shorten(problem, walk, slots)
    for count, hot, cold in _chunks(len(problem.jobs)):
        if not keep_going():
            return
        if count == 0:
            _restart(walk)
        elif steps(tables, walk, count, hot, cold):
            slots = _slots(problem, walk)
            _shorten(problem, walk, slots)
            found(slots)


def _chunks(jobs: int) -> Iterator[tuple[int, float, float]]:
    """Yield the chunks of one walk after the other, each longer: a hot one, then one near the best plan."""
    chunk = max(50, PLACEMENTS_A_CHUNK // jobs)
    total = FIRST_WALK
    while True:
        for hottest in (HOT, WARM):
            count = -(-total // chunk)
            fall = (COLD / hottest) ** (1 / count)
            for place in range(count):
                yield chunk, hottest * fall**place, hottest * fall ** (place + 1)
            yield 0, 0.0, 0.0
        total = min(total * 2, MOST_STEPS)


def _first(problem: PlanProblem, start: Sequence[Slot] | None) -> tuple[Ints, Ints]:
    """Read order and options out of a plan; without one, take the least area, the longest first."""
    if start is None:
        choice = [_least_area(options) for options in problem.options]
        chosen = [options[place] for options, place in zip(problem.options, choice, strict=True)]
        order = sorted(range(len(chosen)), key=lambda job: -chosen[job].seconds)
    else:
        choice = [options.index(slot.option) for options, slot in zip(problem.options, start, strict=True)]
        order = order_of(problem, choice, start)
    return np.array(order, dtype=np.int64), np.array(choice, dtype=np.int64)


def order_of(problem: PlanProblem, choice: Sequence[int], start: Sequence[Slot]) -> list[int]:
    """Return the order in which the list schedule comes nearest to a plan: it may choose other nodes."""
    orders: list[list[int]] = []
    for key in ORDERS:
        ranks = [key(slot) for slot in start]
        orders.append(sorted(range(len(start)), key=ranks.__getitem__))
    return min(orders, key=lambda order: score_of(problem, list_schedule(problem, choice, order)))


def _least_area(options: Sequence[Option]) -> int:
    return min(range(len(options)), key=lambda place: options[place].area)


def _new_walk(tables: Tables, order: Ints, choice: Ints, seed: int) -> Walk:
    opened = np.diff(tables.first_node)
    desk = desk_of(tables)
    value = float(worth(tables, desk, order, choice, opened, np.inf))
    return Walk(
        order=order.copy(),
        choice=choice.copy(),
        open_nodes=opened.copy(),
        best_order=order.copy(),
        best_choice=choice.copy(),
        best_open=opened.copy(),
        values=np.array([value, value]),
        longest=np.array([NEVER]),
        chance=np.array([seed * 2 + 1], dtype=np.uint64),
        desk=desk,
    )


def _shorten(problem: PlanProblem, walk: Walk, slots: Sequence[Slot]) -> None:
    """Use no more options that alone last as long as this plan."""
    missed, over, value = score_of(problem, slots)
    if problem.goal.objective is Objective.MAKESPAN and not missed and not over:
        walk.longest[0] = min(walk.longest[0], int(value))


def _restart(walk: Walk) -> None:
    """Go back to the best plan that was seen."""
    walk.order[:] = walk.best_order
    walk.choice[:] = walk.best_choice
    walk.open_nodes[:] = walk.best_open
    walk.values[0] = walk.values[1]


def _slots(problem: PlanProblem, walk: Walk) -> list[Slot]:
    pools = tuple(
        replace(pool, nodes=int(count)) for pool, count in zip(problem.pools, walk.best_open, strict=True)
    )
    choice = [int(place) for place in walk.best_choice]
    return list_schedule(replace(problem, pools=pools), choice, [int(job) for job in walk.best_order])
