"""Check a finished plan against its jobs, pools and goal, knowing nothing of how it was found.

Every plan is checked here before anybody sees it. This module shares no code with the searches, so that they
cannot share a mistake. To check a new rule, add a generator to _STAGES.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from slipway.jobs.plan.search.model import Assignment, Billing, Objective, Plan, PlanJob
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import money, printable

# Dollars and rework are summed in another order than in the searches.
_ROUNDING = 1e-6
_FLOAT = 1e-12  # of a number of seconds
_MOST_SAID = 3


class InvalidPlan(SlipwayError):
    """Reports a plan that breaks a rule and must not run."""


def check(plan: Plan) -> None:
    """Raise InvalidPlan if the plan breaks any rule, and say which."""
    for stage in _STAGES:
        problems = [problem for rule in stage for problem in rule(plan)]
        if problems:
            more = f", and {len(problems) - _MOST_SAID} more" if len(problems) > _MOST_SAID else ""
            raise InvalidPlan(f"the plan is not valid: {'; '.join(problems[:_MOST_SAID])}{more}")


def _jobs_once(plan: Plan) -> Iterator[str]:
    asked = Counter(job.name for job in plan.jobs)
    planned = Counter(each.job for each in plan.assignments)
    for name, times in asked.items():
        if times > 1:
            yield f"{times} jobs are named {_quoted(name)}"
        elif planned[name] != 1:
            yield f"job {_quoted(name)} is planned {planned[name]} times"
    for name in planned.keys() - asked.keys():
        yield f"job {_quoted(name)} is planned and was not asked for"


def _modes(plan: Plan) -> Iterator[str]:
    jobs = _by_name(plan)
    for each in plan.assignments:
        if each.mode not in jobs[each.job].modes:
            yield f"job {_quoted(each.job)} has no mode {each.mode.technique} on {each.mode.devices} devices"
        elif not 0 <= each.pool < len(plan.pools):
            yield f"job {_quoted(each.job)} runs in pool {each.pool} of {len(plan.pools)}"
        elif plan.pools[each.pool].type != each.mode.type:
            yield (
                f"job {_quoted(each.job)} has a mode for {each.mode.type} and runs in a pool of "
                f"{plan.pools[each.pool].type}"
            )


def _times(plan: Plan) -> Iterator[str]:
    for each in plan.assignments:
        if type(each.start) is not int or each.start < 0:
            yield f"job {_quoted(each.job)} starts at {each.start}"
        pool, need, rounding = plan.pools[each.pool], float(each.mode.seconds), 0.0
        if pool.is_spot:  # plus the work that interruptions are expected to repeat
            interruptions = each.mode.seconds / 3600 * pool.interruptions_per_hour * len(each.placement)
            need += interruptions * pool.rework_seconds
            rounding = _ROUNDING + need * _FLOAT
        if type(each.seconds) is not int or not need - rounding <= each.seconds < need + 1 + rounding:
            yield f"job {_quoted(each.job)} is given {each.seconds} s and needs {need:.12g} s"


def _placements(plan: Plan) -> Iterator[str]:
    for each in plan.assignments:
        yield from (f"job {_quoted(each.job)} {problem}" for problem in _misplaced(plan, each))


def _misplaced(plan: Plan, each: Assignment) -> Iterator[str]:
    pool = plan.pools[each.pool]
    nodes = [share.node for share in each.placement]
    count = sum(len(share.devices) for share in each.placement)
    if len(set(nodes)) < len(nodes):
        yield "names a node twice"
    if count != each.mode.devices:
        yield f"has {count} devices and its mode {each.mode.devices}"
    for share in each.placement:
        if not 0 <= share.node < pool.nodes:
            yield f"runs on node {share.node} of {pool.nodes}"
        if any(not 0 <= device < pool.devices_per_node for device in share.devices):
            yield f"runs on devices {share.devices} of {pool.devices_per_node}"
        if len(set(share.devices)) < len(share.devices):
            yield "names a device twice"
    if len(nodes) > 1 and not pool.spans_nodes:
        yield f"spans {len(nodes)} nodes, and a job of {pool.type} stays inside one"
    if len(nodes) > 1 and any(len(share.devices) < pool.devices_per_node for share in each.placement):
        yield f"spans {len(nodes)} nodes and does not take all of each"


def _devices_used_once(plan: Plan) -> Iterator[str]:
    busy: dict[tuple[int, int, int], list[tuple[int, int, str]]] = defaultdict(list)
    for each in plan.assignments:
        for share in each.placement:
            for device in share.devices:
                busy[each.pool, share.node, device].append((each.start, each.start + each.seconds, each.job))
    for (pool, node, device), uses in busy.items():
        uses.sort()
        for (_, end, before), (start, _, job) in pairwise(uses):
            if start < end:
                yield (
                    f"jobs {_quoted(before)} and {_quoted(job)} both have device {device} of node {node} in "
                    f"pool {pool} at {start} s"
                )


def _dependencies(plan: Plan) -> Iterator[str]:
    planned = {each.job: each for each in plan.assignments}
    for job in plan.jobs:
        for before in job.depends_on:
            if before not in planned:
                yield f"job {_quoted(job.name)} waits for {_quoted(before)}, which is not planned"
            elif planned[job.name].start < planned[before].start + planned[before].seconds:
                yield f"job {_quoted(job.name)} starts before {_quoted(before)} has ended"


def _deadlines(plan: Plan) -> Iterator[str]:
    jobs = _by_name(plan)
    for each in plan.assignments:
        end = each.start + each.seconds
        for deadline in (jobs[each.job].deadline, plan.goal.deadline):
            if deadline is not None and end > deadline:
                yield f"job {_quoted(each.job)} ends at {end} s, after its deadline of {deadline} s"


def _budget(plan: Plan) -> Iterator[str]:
    if plan.goal.budget is not None and (dollars := _dollars(plan)) > plan.goal.budget * (1 + _ROUNDING):
        yield f"it costs {money(dollars)} dollars, and the budget is {money(plan.goal.budget)}"


def _bound(plan: Plan) -> Iterator[str]:
    """Report a plan below its lower bound: one of the two is wrong."""
    ends = [each.start + each.seconds for each in plan.assignments]
    value = _dollars(plan) if plan.goal.objective is Objective.COST else max(ends, default=0)
    if not math.isfinite(plan.bound.value) or plan.bound.value > value * (1 + _ROUNDING) + _ROUNDING:
        yield f"its lower bound ({plan.bound.name}) is {plan.bound.value:g}, and it needs only {value:g}"


def _dollars(plan: Plan) -> float:
    if plan.goal.billing is not Billing.NODE:
        pools = [plan.pools[each.pool] for each in plan.assignments]
        return math.fsum(
            pool.price_per_hour * (each.mode.devices / pool.devices_per_node * each.seconds / 3600)
            for pool, each in zip(pools, plan.assignments, strict=True)
        )
    used: dict[tuple[int, int], list[int]] = defaultdict(list)
    for each in plan.assignments:
        for share in each.placement:
            used[each.pool, share.node] += [each.start, each.start + each.seconds]
    return math.fsum(
        plan.pools[pool].price_per_hour * ((max(moments) - min(moments)) / 3600)
        for (pool, _), moments in used.items()
    )


def _by_name(plan: Plan) -> dict[str, PlanJob]:
    return {job.name: job for job in plan.jobs}


def _quoted(name: str) -> str:
    return f"'{printable(name[:60])}'"


# A later stage may rely on what an earlier one has checked.
_STAGES: tuple[tuple[Callable[[Plan], Iterator[str]], ...], ...] = (
    (_jobs_once,),
    (_modes,),
    (_placements, _times),
    (_devices_used_once, _dependencies, _deadlines, _budget, _bound),
)
