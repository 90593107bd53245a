"""Make plans to compare ours with: whole nodes, as people plan, and marginal gain, as in Optimus."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace

from slipway.jobs.plan.search.first_plan import first_ending
from slipway.jobs.plan.search.list_schedule import Slot
from slipway.jobs.plan.search.options import Option, PlanProblem


def whole_node(problem: PlanProblem) -> list[Slot]:
    """Give each job in turn the largest part of a node that it can use, on the node where it ends first."""
    only = replace(problem, options=tuple(_widest(options) for options in problem.options))
    return first_ending(only, range(len(problem.jobs)))


def marginal_gain(problem: PlanProblem) -> list[Slot]:
    """Start small, give free devices to the jobs that gain most time, and place the longest jobs first."""
    taken = [min(options, key=lambda option: (option.devices, option.seconds)) for options in problem.options]
    free = [pool.devices for pool in problem.pools]
    for option in taken:
        free[option.pool] -= option.devices
    heap = [(-math.inf, job) for job in range(len(taken))]
    while heap:
        promised, job = heapq.heappop(heap)
        gain, option = _best_step(taken[job], problem.options[job], free[taken[job].pool])
        if gain > 0 and -gain > promised:  # since then other jobs have taken devices
            heapq.heappush(heap, (-gain, job))
        elif gain > 0:
            free[option.pool] -= option.devices - taken[job].devices
            taken[job] = option
            heapq.heappush(heap, (-math.inf, job))
    order = sorted(range(len(taken)), key=lambda job: -taken[job].seconds)
    return first_ending(replace(problem, options=tuple((option,) for option in taken)), order)


def _widest(options: Sequence[Option]) -> tuple[Option, ...]:
    """Return each pool's option with the most devices within a node, else with the fewest devices."""
    pools = {option.pool for option in options}
    return tuple(
        min(
            (option for option in options if option.pool == pool),
            key=lambda option: (option.nodes > 1, option.devices if option.nodes > 1 else -option.devices),
        )
        for pool in sorted(pools)
    )


def _best_step(at: Option, options: Sequence[Option], free: int) -> tuple[float, Option]:
    """Return the larger option in the same pool that saves most seconds per additional device."""
    steps = [
        ((at.seconds - option.seconds) / (option.devices - at.devices), -option.devices, option)
        for option in options
        if option.pool == at.pool and 0 < option.devices - at.devices <= free
    ]
    gain, _, option = max(steps, key=lambda step: step[:2], default=(0.0, 0, at))
    return gain, option
