"""Plan many jobs at once: check the inputs, search, and check what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

from slipway.jobs.planner.check import check
from slipway.jobs.planner.model import Billing, Goal, LowerBound, Objective, Plan, PlanJob, Pool
from slipway.jobs.planner.options import PlanProblem, new_problem
from slipway.jobs.planner.reach import cheapest, in_hours, refuse_unreachable
from slipway.jobs.planner.refusals import CannotPlan, refuse_inputs

Progress = Callable[[Plan], None]


class PlanOptions(TypedDict, total=False):
    """Says what is wanted of a plan, and how long to search for it."""

    objective: Objective | str  # makespan (default) or cost
    deadline: int | None  # seconds
    budget: float | None  # dollars
    billing: Billing | str  # device (default) or node
    time_limit: float  # seconds; default 60
    target_gap: float  # as a share of the bound; default 0.01
    seed: int  # default 0
    progress: Progress | None  # is told of each better plan or bound


def plan(jobs: Sequence[PlanJob], pools: Sequence[Pool], **options: Unpack[PlanOptions]) -> Plan:
    """Plan the jobs over the pools.

    An interrupt passes through: what `progress` was told last is then the best plan.
    """
    goal = Goal(
        objective=Objective(options.get("objective", Objective.MAKESPAN)),
        deadline=options.get("deadline"),
        budget=options.get("budget"),
        billing=Billing(options.get("billing", Billing.DEVICE)),
    )
    refuse_inputs(jobs, pools, goal)
    found = _first_plan(new_problem(jobs, pools, goal))
    check(found)
    if progress := options.get("progress"):
        progress(found)
    return found


def _first_plan(problem: PlanProblem) -> Plan:
    from slipway.jobs.planner.baselines import greedy
    from slipway.jobs.planner.bounds.area import least_makespan
    from slipway.jobs.planner.bounds.table import OptionTable
    from slipway.jobs.planner.list_schedule import as_plan

    makespan = LowerBound(value=least_makespan(OptionTable(problem))[0], name="area")
    refuse_unreachable(problem, makespan)
    is_cost = problem.goal.objective is Objective.COST
    bound = LowerBound(value=cheapest(problem), name="cheapest modes") if is_cost else makespan
    found = as_plan(problem, greedy(problem), bound, "first plan")
    _refuse_missed(found, makespan)
    return found


def _refuse_missed(found: Plan, makespan: LowerBound) -> None:
    """Refuse a plan that misses its deadline or budget; nobody has proven that none exists."""
    goal = found.goal
    if goal.deadline is not None and found.makespan > goal.deadline:
        raise CannotPlan(
            f"no plan was found that ends by {in_hours(goal.deadline)}; the best ends at "
            f"{in_hours(found.makespan)}, and none ends before {in_hours(makespan.value)} "
            f"(lower bound: {makespan.name})",
            hint="allow more time, or search longer with --time-limit",
        )
    if goal.budget is not None and found.dollars > goal.budget:
        raise CannotPlan(
            f"no plan was found for {goal.budget:,.2f} dollars; the best costs {found.dollars:,.2f}",
            hint="allow more dollars, or search longer with --time-limit",
        )
