"""The best plan and the highest bound so far, each checked before it is kept."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from slipway.jobs.plan.search.check import InvalidPlan, check
from slipway.jobs.plan.search.list_schedule import Slot, as_plan
from slipway.jobs.plan.search.model import LowerBound, Plan
from slipway.jobs.plan.search.options import PlanProblem
from slipway.jobs.plan.search.urgency import urgent_first

log = logging.getLogger(__name__)
ROUNDING = 1e-9  # as a share: sums of dollars are added up in another order elsewhere


class Incumbent:
    """Keeps what misses the goal by least, then has the least value, then ends urgent jobs first."""

    def __init__(self, problem: PlanProblem, slots: Sequence[Slot], bound: LowerBound) -> None:
        self.problem = problem
        self.slots = slots
        self.bound = bound
        self.is_impossible = False
        self._rank = rank(as_plan(problem, slots, bound))

    def offer(self, slots: Sequence[Slot]) -> bool:
        """Keep a plan if it is better and breaks no rule; a search that is wrong only warns."""
        slots = urgent_first(self.problem, slots)
        plan = as_plan(self.problem, slots, LowerBound(value=0, name="none"))
        if (found := rank(plan)) >= self._rank:
            return False
        if not found[0]:
            try:
                check(plan)
            except InvalidPlan as error:
                log.warning("a search's plan was thrown away: %s", error)
                return False
        self.slots, self._rank = slots, found
        return True

    def raise_to(self, bound: LowerBound) -> bool:
        if math.isinf(bound.value):
            self.is_impossible = not self.is_valid
            return False
        if bound.value <= self.bound.value * (1 + ROUNDING):
            return False
        if self.is_valid and bound.value > self._rank[1] * (1 + 1e-6):
            log.warning("a bound above a plan was thrown away: %s", bound)
            return False
        self.bound = bound
        return True

    @property
    def is_valid(self) -> bool:
        """Return True if the plan keeps every deadline and the budget."""
        return not self._rank[0]

    def plan(self, stopped: str = "") -> Plan:
        return as_plan(self.problem, self.slots, self.bound, stopped)


def rank(plan: Plan) -> tuple[float, float, float]:
    """Return what to compare plans by: what is missed, the value, and how late urgent jobs end."""
    goal = plan.goal
    late = 0.0
    urgent = 0.0
    for job, each in zip(plan.jobs, plan.assignments, strict=True):
        deadlines = [deadline for deadline in (job.deadline, goal.deadline) if deadline is not None]
        late += max(0, each.end - min(deadlines, default=each.end))
        urgent += job.priority * each.end
    over = 0.0 if goal.budget is None else max(0.0, plan.dollars - goal.budget * (1 + ROUNDING))
    return late + over, plan.value, urgent
