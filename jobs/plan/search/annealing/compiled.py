"""A list schedule and a walk of simulated annealing over it, compiled by numba.

The schedule is the one of jobs/plan/search/list_schedule.py: the same nodes, the same starts. A node is the
sorted row of the times at which its devices become free: which device it is does not change a plan's worth.
All that is compiled stands in this one file: numba's cache does not notice a change in another one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from slipway.jobs.plan.search.model import Billing, Goal, Objective
from slipway.jobs.plan.search.options import PlanProblem

LATE = 20.0  # what a share of time or money beyond a limit weighs
SMOOTH = 1.0  # what all devices' ends weigh beside the last one: it tells plateaus apart
NEAR = 8  # half of the moves in the order stay within so many places


@njit(cache=True, nogil=True)
def worth(tables: Tables, desk: Desk, order: Ints, choice: Ints, open_nodes: Ints, limit: float) -> float:
    """Return how bad the plan of this order is; beyond the limit any number above it."""
    goal = tables.goal
    desk.free[:] = 0
    desk.first_use[:] = -1
    desk.ends[:] = -1
    last, dollars, late, urgent = 0, 0.0, 0.0, 0.0
    for next_job in order:
        desk.stack[0] = next_job
        depth = 1
        while depth > 0:
            job = desk.stack[depth - 1]
            ready, missing = _ready(tables, desk, job)
            if missing >= 0:
                desk.stack[depth] = missing
                depth += 1
                continue
            depth -= 1
            if desk.ends[job] >= 0:
                continue
            option = tables.first_option[job] + choice[job]
            end = _place(tables, desk, option, ready, open_nodes)
            desk.ends[job] = end
            last = max(last, end)
            dollars += tables.dollars[option]
            late += max(0, end - tables.deadline[job])
            urgent += end * tables.urgency[job]
            if not goal.by_cost and last * goal.second > limit:
                return np.inf
    if goal.by_node:
        dollars = _bill(tables, desk)
    over = late * goal.second + max(0.0, dollars - goal.budget) * goal.dollar
    if goal.by_cost:
        return dollars * goal.dollar + LATE * over + urgent
    return last * goal.second + SMOOTH * _fullness(tables, desk) + LATE * over + urgent


@njit(cache=True, nogil=True)
def _ready(tables: Tables, desk: Desk, job: int) -> tuple[int, int]:
    """Return when all that the job waits for has ended, or the last of those that are not placed."""
    ready, missing = 0, -1
    for place in range(tables.first_before[job], tables.first_before[job + 1]):
        before = tables.before[place]
        if desk.ends[before] < 0:
            missing = before
        ready = max(ready, desk.ends[before])
    return ready, missing


@njit(cache=True, nogil=True)
def _place(tables: Tables, desk: Desk, option: int, ready: int, open_nodes: Ints) -> int:
    pool = tables.pool[option]
    first, width = tables.first_node[pool], tables.width[pool]
    beyond = first + open_nodes[pool]
    if tables.nodes[option] > 0:
        return _place_gang(tables, desk, option, ready, beyond)
    count = tables.devices[option]
    best, best_start, best_waste = -1, 0, 0
    for node in range(first, beyond):
        row = desk.free[node]
        start = max(ready, row[count - 1])
        if best >= 0 and start > best_start:
            continue
        waste = 0
        for device in range(count):
            waste += start - row[device]
        if best < 0 or start < best_start or waste < best_waste:
            best, best_start, best_waste = node, start, waste
    if desk.first_use[best] < 0:
        desk.first_use[best] = best_start
    end: int = best_start + tables.seconds[option]
    _occupy(desk.free[best], width, count, best_start, end)
    return end


@njit(cache=True, nogil=True)
def _occupy(row: Ints, width: int, count: int, start: int, end: int) -> None:
    """Take the devices that are free by the start and were busy last, and keep the row sorted."""
    beyond = count
    while beyond < width and row[beyond] <= start:
        beyond += 1
    while beyond < width and row[beyond] < end:
        row[beyond - count] = row[beyond]
        beyond += 1
    for device in range(beyond - count, beyond):
        row[device] = end


@njit(cache=True, nogil=True)
def _place_gang(tables: Tables, desk: Desk, option: int, ready: int, beyond: int) -> int:
    """Take the whole nodes that are free first."""
    pool = tables.pool[option]
    first, last_device = tables.first_node[pool], tables.width[pool] - 1
    start, node = -1, first
    for _ in range(tables.nodes[option]):
        start, node = _next_free(desk.free, last_device, (first, beyond), (start, node))
    end: int = max(ready, start) + tables.seconds[option]
    since, last_node = start, node
    for node in range(first, beyond):
        free = desk.free[node, last_device]
        if free < since or (free == since and node <= last_node):
            if desk.first_use[node] < 0:
                desk.first_use[node] = max(ready, since)
            desk.free[node, : last_device + 1] = end
    return end


@njit(cache=True, nogil=True)
def _next_free(free: Ints, device: int, nodes: tuple[int, int], after: tuple[int, int]) -> tuple[int, int]:
    """Return when the next of these nodes is free and which it is, in the order of both."""
    best, since = -1, 0
    for node in range(nodes[0], nodes[1]):
        at = free[node, device]
        is_later = at > after[0] or (at == after[0] and node > after[1])
        if is_later and (best < 0 or at < since):
            best, since = node, at
    return since, best


@njit(cache=True, nogil=True)
def _bill(tables: Tables, desk: Desk) -> float:
    """Return the price of each node from its first job's start to its last job's end."""
    dollars = 0.0
    for pool in range(len(tables.width)):
        for node in range(tables.first_node[pool], tables.first_node[pool + 1]):
            if desk.first_use[node] >= 0:
                busy = desk.free[node, tables.width[pool] - 1] - desk.first_use[node]
                dollars += busy * tables.price[pool]
    return dollars


@njit(cache=True, nogil=True)
def _fullness(tables: Tables, desk: Desk) -> float:
    """Return the mean eighth power of the ends: each device that ends late counts, not only the last."""
    total, devices = 0.0, 0
    for pool in range(len(tables.width)):
        width = tables.width[pool]
        for node in range(tables.first_node[pool], tables.first_node[pool + 1]):
            devices += width
            for device in range(width):
                squared = (desk.free[node, device] * tables.goal.second) ** 2
                total += squared * squared * squared * squared
    return total / devices


@njit(cache=True, nogil=True)
def steps(tables: Tables, walk: Walk, count: int, hot: float, cold: float) -> bool:
    """Take so many steps while the temperature falls from hot to cold; return True if the best got better."""
    improved = False
    fall = (cold / hot) ** (1.0 / count)
    temperature = hot
    for _ in range(count):
        limit = walk.values[0] - temperature * np.log(max(_uniform(walk.chance), 1e-300))
        kind, one, other = _propose(tables, walk)
        value = worth(tables, walk.desk, walk.order, walk.choice, walk.open_nodes, limit)
        if value <= limit:
            walk.values[0] = value
            if value < walk.values[1] - 1e-12:
                walk.values[1] = value
                walk.best_order[:] = walk.order
                walk.best_choice[:] = walk.choice
                walk.best_open[:] = walk.open_nodes
                improved = True
        else:
            _undo(walk, kind, one, other)
        temperature *= fall
    return improved


@njit(cache=True, nogil=True)
def _propose(tables: Tables, walk: Walk) -> tuple[int, int, int]:
    """Change the walk's plan a little, and return what takes it back."""
    jobs = len(walk.order)
    kind = _below(walk.chance, 4)
    one = _below(walk.chance, jobs)
    if kind >= 2:
        count = tables.first_option[one + 1] - tables.first_option[one]
        before = walk.choice[one]
        if count > 1:
            other = (before + 1 + _below(walk.chance, count - 1)) % count
            if tables.seconds[tables.first_option[one] + other] < walk.longest[0]:
                walk.choice[one] = other
        if tables.goal.by_node and _below(walk.chance, 8) == 0:
            walk.choice[one] = before
            return _open_or_close(tables, walk)
        return 2, one, before
    if _below(walk.chance, 2) == 0:
        other = _below(walk.chance, jobs)
    else:
        other = min(jobs - 1, max(0, one + _below(walk.chance, 2 * NEAR + 1) - NEAR))
    if kind == 0:
        walk.order[one], walk.order[other] = walk.order[other], walk.order[one]
    else:
        _shift(walk.order, one, other)
    return kind, one, other


@njit(cache=True, nogil=True)
def _open_or_close(tables: Tables, walk: Walk) -> tuple[int, int, int]:
    """Use one node more or fewer of a pool, but never too few for the options that are chosen."""
    pool = _below(walk.chance, len(walk.open_nodes))
    before = walk.open_nodes[pool]
    least = 1
    for job in range(len(walk.choice)):
        option = tables.first_option[job] + walk.choice[job]
        if tables.pool[option] == pool:
            least = max(least, tables.nodes[option])
    most = tables.first_node[pool + 1] - tables.first_node[pool]
    change = 2 * _below(walk.chance, 2) - 1
    walk.open_nodes[pool] = min(most, max(least, before + change))
    return 3, pool, before


@njit(cache=True, nogil=True)
def _undo(walk: Walk, kind: int, one: int, other: int) -> None:
    if kind == 0:
        walk.order[one], walk.order[other] = walk.order[other], walk.order[one]
    elif kind == 1:
        _shift(walk.order, other, one)
    elif kind == 2:
        walk.choice[one] = other
    else:
        walk.open_nodes[one] = other


@njit(cache=True, nogil=True)
def _shift(order: Ints, since: int, to: int) -> None:
    """Move the job at one place to another, and those between by one."""
    moved = order[since]
    step = 1 if to > since else -1
    place = since
    while place != to:
        order[place] = order[place + step]
        place += step
    order[to] = moved


@njit(cache=True, nogil=True)
def _next(chance: Seeds) -> np.uint64:
    """Return 64 random bits: SplitMix64 (Steele, Lea and Flood, 2014)."""
    chance[0] += np.uint64(0x9E3779B97F4A7C15)
    bits: np.uint64 = chance[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@njit(cache=True, nogil=True)
def _uniform(chance: Seeds) -> float:
    return float(_next(chance) >> np.uint64(11)) / 2.0**53


@njit(cache=True, nogil=True)
def _below(chance: Seeds, count: int) -> int:
    return int(_next(chance) >> np.uint64(33)) * count >> 31


# A problem as flat arrays, which is what compiled code reads.
# Options of all jobs stand one after the other, and so do the nodes of all pools.
NEVER = 2**53  # later than any plan ends; a float holds it exactly

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Seeds = NDArray[np.uint64]


class GoalNumbers(NamedTuple):
    by_cost: bool
    by_node: bool
    budget: float
    second: float  # what one second and one dollar weigh
    dollar: float


class Tables(NamedTuple):
    """Holds what stays the same while a plan is searched."""

    first_option: Ints  # of each job, and one more: where the options end
    pool: Ints  # of each option, as the next four
    devices: Ints
    nodes: Ints
    seconds: Ints
    dollars: Floats
    first_node: Ints  # of each pool, and one more
    width: Ints  # devices of a node of each pool
    price: Floats  # of a second of a node of each pool
    first_before: Ints  # of each job, and one more, in `before`
    before: Ints
    deadline: Ints  # of each job, its own or the plan's
    urgency: Floats  # of each job: what a second of its end weighs among equal plans
    goal: GoalNumbers


def tables_of(problem: PlanProblem, seconds: float, dollars: float) -> Tables:
    """Lay the problem out; what a plan is worth is measured in these usual seconds and dollars."""
    options = [option for of_job in problem.options for option in of_job]
    return Tables(
        first_option=_starts([len(of_job) for of_job in problem.options]),
        pool=_ints([option.pool for option in options]),
        devices=_ints([option.devices for option in options]),
        nodes=_ints([option.nodes for option in options]),
        seconds=_ints([option.seconds for option in options]),
        dollars=np.array([option.dollars for option in options], dtype=np.float64),
        first_node=_starts([pool.nodes for pool in problem.pools]),
        width=_ints([pool.devices_per_node for pool in problem.pools]),
        price=np.array([pool.price_per_hour / 3600 for pool in problem.pools], dtype=np.float64),
        first_before=_starts([len(before) for before in problem.after]),
        before=_ints([job for before in problem.after for job in before]),
        deadline=_ints([_deadline(job.deadline, problem.goal.deadline) for job in problem.jobs]),
        urgency=_urgency(problem, seconds),
        goal=_goal(problem.goal, seconds, dollars),
    )


def _deadline(*deadlines: int | None) -> int:
    return min((deadline for deadline in deadlines if deadline is not None), default=NEVER)


def _goal(goal: Goal, seconds: float, dollars: float) -> GoalNumbers:
    return GoalNumbers(
        by_cost=goal.objective is Objective.COST,
        by_node=goal.billing is Billing.NODE,
        budget=np.inf if goal.budget is None else goal.budget,
        second=1 / max(seconds, 1.0),
        dollar=1 / dollars if dollars > 0 else 0.0,
    )


def _urgency(problem: PlanProblem, seconds: float) -> Floats:
    """Weigh priorities so lightly that all of them together never buy a thousandth of the goal."""
    ranks = np.array([job.priority for job in problem.jobs], dtype=np.float64)
    ranks -= ranks.min(initial=0.0)
    return ranks * (1e-3 / max(float(ranks.sum()), 1.0) / max(seconds, 1.0))


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _starts(counts: list[int]) -> Ints:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


class Desk(NamedTuple):
    """Holds what one evaluation writes."""

    free: Ints  # by node and device, sorted
    first_use: Ints  # of each node
    ends: Ints  # of each job; -1: not placed yet
    stack: Ints


def desk_of(tables: Tables) -> Desk:
    nodes, jobs = int(tables.first_node[-1]), len(tables.first_option) - 1
    return Desk(
        free=np.zeros((nodes, int(tables.width.max())), dtype=np.int64),
        first_use=np.zeros(nodes, dtype=np.int64),
        ends=np.zeros(jobs, dtype=np.int64),
        stack=np.zeros(jobs + len(tables.before) + 1, dtype=np.int64),
    )


class Walk(NamedTuple):
    """Holds where a walk stands, and the best that it has seen."""

    order: Ints
    choice: Ints
    open_nodes: Ints  # of each pool: the nodes that are used at all
    best_order: Ints
    best_choice: Ints
    best_open: Ints
    values: Floats  # here, best
    longest: Ints  # one number: seconds that an option may not reach, for the best plan is no longer
    chance: Seeds  # the state of the generator
    desk: Desk
