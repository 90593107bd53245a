"""Improve a plan by annealing: move jobs, swap them and change their options, ever more carefully.

Each node runs its row of jobs in order, each job as soon as enough devices of the node are free. So a change
alters at most two nodes, and a core tries millions in a second. If numba is not installed, the same code runs
as plain Python, much more slowly, and finds the same plans. All compiled code is in this file: numba's cache
does not notice a change in another one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from importlib.util import find_spec
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from slipway.jobs.plan.search.bounds.prove import least_makespan
from slipway.jobs.plan.search.bounds.table import Numbers, OptionTable
from slipway.jobs.plan.search.list_schedule import FreeDevices, Slot
from slipway.jobs.plan.search.model import NodeDevices
from slipway.jobs.plan.search.options import PlanProblem

Integers = NDArray[np.int64]
Given = ParamSpec("Given")
Got = TypeVar("Got")


def compiled(function: Callable[Given, Got]) -> Callable[Given, Got]:
    """Compile a function if numba, the extra `fast`, is installed."""
    if find_spec("numba") is None:
        return function
    from numba import njit

    return njit(cache=True, nogil=True, inline="always", error_model="numpy")(function)


# What is tried: a job moves, takes another option where it is, or swaps with another job.
KINDS, MOVES, SWAPS = 5, 2, 3  # kinds of changes, the first that is no move, and the first swap
PARTS = 2**20  # of the way from 0 to 1, for the chance that a change is kept


class Choices(NamedTuple):
    """Holds the options of each job, by place, and the nodes of all pools, one after the other."""

    devices: Integers  # by job and option, as the next three
    seconds: Integers
    pools: Integers  # -1: no option
    prices: Numbers  # what the option takes of all devices, in seconds of one node
    counts: Integers  # of options, by job
    pool_of: Integers  # by node, as the next two
    widths: Integers  # devices
    free: Integers  # from when on each device is free
    over: float  # the cost of a device-second after the limit, besides those of the node's end
    steep: float  # what a node's end costs more, the later it is
    limit: int  # when all jobs should have ended
    heat: float  # how much worse a change may make the plan


class Rows(NamedTuple):
    """Holds the jobs of each node in order, and the option of each job."""

    jobs: Integers  # by node and place
    counts: Integers  # of jobs, by node
    option: Integers  # by job
    node: Integers  # by job
    ends: Integers  # by node
    late: Numbers  # by node: what ends after the limit cost, in seconds of one node


@compiled
def draw(dice: Integers, below: int) -> int:
    """Return a number from 0 on, from the sequence of Lehmer's generator (Park and Miller, 1993)."""
    dice[0] = dice[0] * 48271 % 2147483647
    return int(dice[0] * below / 2147483647)


@compiled
def run_row(choices: Choices, rows: Rows, node: int, free: Integers) -> None:
    """Let a node run its row: note its end, and what it costs that jobs end after the limit.

    `free` holds when each device is free, sorted. A job takes those that were busy last.
    """
    width = choices.widths[node]
    for device in range(width):
        free[device] = choices.free[node, device]
    end = free[width - 1]
    for place in range(rows.counts[node]):
        job = rows.jobs[node, place]
        devices = choices.devices[job, rows.option[job]]
        start = free[devices - 1]
        until = start + choices.seconds[job, rows.option[job]]
        behind = devices
        while behind < width and free[behind] <= start:
            behind += 1
        while behind < width and free[behind] < until:
            free[behind - devices] = free[behind]
            behind += 1
        for device in range(behind - devices, behind):
            free[device] = until
        end = max(end, until)
    late, limit = 0.0, choices.limit
    if end > limit:
        late = (end - limit) * (1 + choices.steep * (end - limit) / limit)
        for device in range(width):
            if free[device] > limit:
                late += choices.over * (free[device] - limit)
    rows.ends[node], rows.late[node] = end, late


@compiled
def relocate(rows: Rows, job: int, node: int, place: int) -> int:
    """Move a job to this place of a node's row, and return the place that it had."""
    before = rows.node[job]
    row = rows.jobs[before]
    found = 0
    while row[found] != job:
        found += 1
    rows.counts[before] -= 1
    for at in range(found, rows.counts[before]):
        row[at] = row[at + 1]
    row = rows.jobs[node]
    for at in range(rows.counts[node], place, -1):
        row[at] = row[at - 1]
    row[place] = job
    rows.counts[node] += 1
    rows.node[job] = node
    return found


@compiled
def swap(rows: Rows, job: int, other: int) -> None:
    """Let two jobs change places."""
    node, there = rows.node[job], rows.node[other]
    place = at = 0
    while rows.jobs[node, place] != job:
        place += 1
    while rows.jobs[there, at] != other:
        at += 1
    rows.jobs[node, place], rows.jobs[there, at] = other, job
    rows.node[job], rows.node[other] = there, node


@compiled
def choose(choices: Choices, rows: Rows, job: int, node: int, dice: Integers) -> int:
    """Return an option for a job on this node, perhaps the one that it has; -1 if it does not suit."""
    option = rows.option[job]
    if draw(dice, 2) or choices.pools[job, option] != choices.pool_of[node]:
        option = draw(dice, choices.counts[job])
    suits = (
        choices.pools[job, option] == choices.pool_of[node] and choices.seconds[job, option] <= choices.limit
    )
    return option if suits else -1


@compiled
def keep(rows: Rows, best: Rows) -> int:
    """Copy rows to the best ones if they end sooner, and return when the best ones end."""
    if rows.ends.max() < best.ends.max():
        best.jobs[:], best.counts[:], best.option[:] = rows.jobs, rows.counts, rows.option
        best.node[:], best.ends[:] = rows.node, rows.ends
    return best.ends.max()  # type: ignore[no-any-return] # numpy's


@compiled
def anneal(choices: Choices, rows: Rows, best: Rows, moves: int, dice: Integers) -> None:
    """Make changes; take back those that cost too much for this heat, and keep the best rows."""
    free = np.zeros(choices.free.shape[1], np.int64)
    shortest = keep(rows, best)
    for _ in range(moves):
        job, other, kind = draw(dice, len(rows.option)), draw(dice, len(rows.option)), draw(dice, KINDS)
        if kind < SWAPS:
            other = job
        node, there = rows.node[job], rows.node[other]
        if kind < MOVES:
            there = draw(dice, len(rows.counts))
            if rows.counts[there] == rows.jobs.shape[1]:
                continue
        old, its_old = rows.option[job], rows.option[other]
        new = choose(choices, rows, job, there, dice)
        its = new if other == job else choose(choices, rows, other, node, dice)
        if new < 0 or its < 0:
            continue
        place = 0
        if kind < MOVES:
            place = relocate(rows, job, there, draw(dice, rows.counts[there] + (there != node)))
        if other != job:
            swap(rows, job, other)
        rows.option[other], rows.option[job] = its, new
        cost = choices.prices[job, new] - choices.prices[job, old]
        if other != job:
            cost += choices.prices[other, its] - choices.prices[other, its_old]
        end, its_end, late, its_late = rows.ends[node], rows.ends[there], rows.late[node], rows.late[there]
        allowed = -choices.heat * math.log((1 + draw(dice, PARTS)) / PARTS)
        run_row(choices, rows, node, free)
        cost += rows.late[node] - late
        if there != node and cost <= allowed + its_late:
            run_row(choices, rows, there, free)
            cost += rows.late[there] - its_late
        if cost > allowed:
            if other != job:
                swap(rows, job, other)
            if kind < MOVES:
                relocate(rows, job, node, place)
            rows.option[other], rows.option[job] = its_old, old
            rows.ends[there], rows.late[there], rows.ends[node], rows.late[node] = (
                its_end,
                its_late,
                end,
                late,
            )
        elif max(end, its_end) >= shortest > max(rows.ends[node], rows.ends[there]):
            shortest = keep(rows, best)


# Rounds of annealing, from the best plan each time. A round asks for less than that plan's makespan.
STEPS = 100  # of falling heat in a round
COLD = 0.001  # the last heat, as a share of the least makespan
MOVES_PER_JOB, LONGER, MOST_LONGER = 200, 1.3, 50.0  # in a step: at first, by round, and at most
ROOM = 8  # for jobs on a node, besides twice those that there are at first
SHARES = (0.2, 0.8)  # of what the plan takes beyond the bound: the limit lies between these
# A node-second's price, `over` and `steep` of the choices, and the first heat; others after a round in vain.
COSTS = ((2.0, 0.0, 0.0, 0.02), (1.0, 0.3, 100.0, 0.02), (0.3, 0.3, 0.0, 0.05), (1.0, 1.0, 0.0, 0.1))


class Annealing:
    """Holds the shortest plan so far; jobs over several nodes, and all before them, stay."""

    def __init__(self, problem: PlanProblem, start: Sequence[Slot], bound: float = 0.0) -> None:
        self._problem, self.slots = problem, list(start)
        self._nodes = [(pool, node) for pool, each in enumerate(problem.pools) for node in range(each.nodes)]
        place_of = {each: place for place, each in enumerate(self._nodes)}
        where = [[place_of[slot.option.pool, share.node] for share in slot.placement] for slot in start]
        busy = np.zeros(len(self._nodes), np.int64)
        for slot, nodes in zip(start, where, strict=True):
            if len(nodes) > 1:
                busy[nodes] = np.maximum(busy[nodes], slot.end)
        stays = [
            len(nodes) > 1 or slot.start < busy[nodes[0]] for slot, nodes in zip(start, where, strict=True)
        ]
        self._jobs = [job for job in range(len(start)) if not stays[job]]
        self._free = [FreeDevices(replace(problem.pools[pool], nodes=1)) for pool, _ in self._nodes]
        for job in sorted(np.flatnonzero(stays).tolist(), key=lambda job: start[job].end):
            for share, node in zip(start[job].placement, where[job], strict=True):
                self._free[node].take((replace(share, node=0),), start[job].end)
        self._best = max(slot.end for slot in start)
        table = OptionTable(problem)
        least, prices = least_makespan(table)
        self._least = max(least, bound)
        self._choices = self._choices_of(table, prices.of(table))
        self._rows = self._rows_of([where[job][0] for job in self._jobs])

    def improve(
        self, *, seed: int, keep_going: Callable[[], bool], found: Callable[[Sequence[Slot]], None]
    ) -> None:
        """Call `found` with each shorter plan, until no time is left or nothing can be gained."""
        self._chance, longer, turn = random.Random(seed), 1.0, 0  # noqa: S311 - no secret
        self._dice = np.array([self._chance.randrange(1, 2**31 - 1)])
        while self._jobs and self._best > self._least and keep_going():
            before = self._best
            for _ in self._steps(longer, *COSTS[turn % len(COSTS)]):
                if self._is_better():
                    found(self.slots)
                if not keep_going():
                    return
            longer = min(MOST_LONGER, longer * LONGER)
            turn += self._best == before

    def _choices_of(self, table: OptionTable, prices: Numbers) -> Choices:
        pools, jobs = self._problem.pools, self._jobs
        widths = np.array([pools[pool].devices_per_node for pool, _ in self._nodes])
        free = np.zeros((len(widths), widths.max()), np.int64)
        for node, each in enumerate(self._free):
            free[node, : widths[node]] = each.since
        inside = table.devices <= np.array([pool.devices_per_node for pool in pools])[table.pool]
        return Choices(
            devices=table.devices.astype(np.int64)[jobs],
            seconds=table.seconds[jobs],
            pools=np.where(table.is_option & inside, table.pool, -1)[jobs],
            prices=(prices * table.capacity.sum() / widths.max())[jobs],
            counts=table.is_option.sum(axis=1)[jobs],
            pool_of=np.array([pool for pool, _ in self._nodes]),
            widths=widths,
            free=free,
            over=0.0,
            steep=0.0,
            limit=1,
            heat=0.0,
        )

    def _rows_of(self, nodes: Sequence[int]) -> Rows:
        """Return the rows of the first plan."""
        counts = np.bincount(np.array(nodes, np.int64), minlength=len(self._nodes))
        rows = Rows(
            jobs=np.zeros((len(counts), 2 * counts.max() + ROOM), np.int64),
            counts=np.zeros_like(counts),
            option=np.zeros(len(nodes), np.int64),
            node=np.array(nodes, dtype=np.int64),
            ends=np.zeros_like(counts),
            late=np.zeros(len(counts)),
        )
        for at in sorted(range(len(nodes)), key=lambda at: self.slots[self._jobs[at]].start):
            job, node = self._jobs[at], nodes[at]
            rows.jobs[node, rows.counts[node]] = at
            rows.counts[node] += 1
            rows.option[at] = self._problem.options[job].index(self.slots[job].option)
        rows.ends[:] = self._best
        return rows

    def _steps(self, longer: float, price: float, over: float, steep: float, hot: float) -> Iterator[None]:
        """Anneal from the best plan, step by step."""
        limit = max(1, int(self._least + self._chance.uniform(*SHARES) * (self._best - self._least)))
        prices = price * self._choices.prices
        choices = self._choices._replace(prices=prices, over=over, steep=steep, limit=limit)
        rows = deepcopy(self._rows)
        fitting = (choices.pools == choices.pool_of[rows.node][:, None]) & (choices.seconds <= limit)
        cheapest = np.where(fitting, choices.prices, np.inf).argmin(axis=1)
        each = np.arange(len(cheapest))
        too_long = fitting.any(axis=1) & (choices.seconds[each, rows.option] > limit)
        rows.option[too_long] = cheapest[too_long]
        free = np.zeros(choices.free.shape[1], np.int64)
        for node in range(len(self._nodes)):
            run_row(choices, rows, node, free)
        moves = int(longer * MOVES_PER_JOB * len(self._jobs))
        for step in range(STEPS):
            heat = self._least * hot * (COLD / hot) ** (step / STEPS)
            anneal(choices._replace(heat=heat), rows, self._rows, moves, self._dice)
            yield

    def _is_better(self) -> bool:
        """Take over the shorter plan if a step has found one."""
        if (shortest := int(self._rows.ends.max())) >= self._best:
            return False
        self._best = shortest
        for node, (_, place) in enumerate(self._nodes):
            free = deepcopy(self._free[node])
            for at in self._rows.jobs[node, : self._rows.counts[node]].tolist():
                option = self._problem.options[self._jobs[at]][self._rows.option[at]]
                start, (share,) = free.earliest(option)
                free.take((share,), start + option.seconds)
                placement = (NodeDevices(node=place, devices=share.devices),)
                self.slots[self._jobs[at]] = Slot(option=option, start=start, placement=placement)
        return True
