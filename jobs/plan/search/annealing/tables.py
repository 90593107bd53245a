"""A problem as flat arrays, which is what compiled code reads.

Options of all jobs stand one after the other, and so do the nodes of all pools.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slipway.jobs.plan.search.model import Billing, Goal, Objective
from slipway.jobs.plan.search.options import PlanProblem

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
