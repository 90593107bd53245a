"""Prove how good a plan can be at most: quick bounds first, then better ones as long as there is time."""

from __future__ import annotations

from collections.abc import Callable

from slipway.jobs.plan.search.bounds.area import least_makespan
from slipway.jobs.plan.search.bounds.dollars import cheapest, least_dollars, raise_dollars
from slipway.jobs.plan.search.bounds.pattern import raise_makespan
from slipway.jobs.plan.search.bounds.table import OptionTable
from slipway.jobs.plan.search.bounds.worth_search import KeepGoing
from slipway.jobs.plan.search.model import LowerBound, Objective
from slipway.jobs.plan.search.options import PlanProblem


def prove(problem: PlanProblem, *, keep_going: KeepGoing, proven: Callable[[LowerBound], None]) -> None:
    """Tell each higher bound of what the goal wants to be small."""
    if not problem.jobs:
        return
    table = OptionTable(problem)
    if problem.goal.objective is Objective.COST:
        _prove_dollars(table, keep_going, proven)
    else:
        _prove_makespan(table, keep_going, proven)


def _prove_makespan(table: OptionTable, keep_going: KeepGoing, proven: Callable[[LowerBound], None]) -> None:
    least, prices = least_makespan(table)
    proven(LowerBound(value=float(least), name=_name(table, least)))
    for better in raise_makespan(table, least, prices, keep_going):
        proven(LowerBound(value=float(better), name="device pattern"))


def _prove_dollars(table: OptionTable, keep_going: KeepGoing, proven: Callable[[LowerBound], None]) -> None:
    least = cheapest(table)
    proven(LowerBound(value=least, name="cheapest modes"))
    deadline = table.problem.goal.deadline
    if deadline is None or deadline < table.longest_chain():
        return
    with_room, surcharges = least_dollars(table, deadline)
    if with_room > least:
        proven(LowerBound(value=with_room, name="area"))
    known = max(least, with_room)
    for better in raise_dollars(table, deadline, surcharges, keep_going):
        if better > known:
            known = better
            proven(LowerBound(value=better, name="device pattern"))


def _name(table: OptionTable, least: int) -> str:
    if least <= table.longest_job():
        return "longest job"
    return "chain of dependencies" if least <= table.longest_chain() else "area"
