"""Plan many jobs at once: check the inputs, search, and check what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipway.jobs.planner.check import check
from slipway.jobs.planner.list_schedule import Slot, as_plan, list_schedule
from slipway.jobs.planner.model import Billing, Goal, LowerBound, Objective, Plan, PlanJob, Pool
from slipway.jobs.planner.options import PlanProblem, new_problem
from slipway.jobs.planner.reach import cheapest, refuse_unreachable
from slipway.jobs.planner.refusals import CannotPlan, refuse_inputs

Progress = Callable[[Plan], None]


def plan(
    jobs: Sequence[PlanJob],
    pools: Sequence[Pool],
    *,
    objective: Objective | str = Objective.MAKESPAN,
    deadline: int | None = None,
    budget: float | None = None,
    billing: Billing | str = Billing.DEVICE,
    time_limit: float = 60.0,
    target_gap: float = 0.01,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Plan the jobs over the pools; `progress` is told of each better plan or bound.

    An interrupt passes through: what `progress` was told last is then the best plan.
    """
    goal = Goal(objective=Objective(objective), deadline=deadline, budget=budget, billing=Billing(billing))
    refuse_inputs(jobs, pools, goal)
    problem = new_problem(jobs, pools, goal)
    makespan = _area_bound(problem)
    refuse_unreachable(problem, makespan)
    is_cost = goal.objective is Objective.COST
    bound = LowerBound(value=cheapest(problem), name="cheapest modes") if is_cost else makespan
    found = min((as_plan(problem, slots, bound, "first plan") for slots in _starts(problem)), key=_rank)
    if deadline is not None and found.makespan > deadline:
        raise CannotPlan(
            f"no plan was found that ends by {deadline} s; the best ends at {found.makespan} s, and none "
            f"ends before {makespan.value:.0f} s",
            hint="allow more time",
        )
    check(found)
    if progress is not None:
        progress(found)
    return found


def _rank(found: Plan) -> tuple[bool, float]:
    deadline = found.goal.deadline
    return deadline is not None and found.makespan > deadline, found.value


def _starts(problem: PlanProblem) -> list[list[Slot]]:
    """Return schedules, the largest areas first, each for another length of the longest job."""
    lengths = sorted({option.seconds for options in problem.options for option in options}, reverse=True)
    picked = lengths[:: max(1, len(lengths) // 12)]
    found = []
    for most in picked:
        choice = []
        for options in problem.options:
            able = [place for place, option in enumerate(options) if option.seconds <= most]
            by_need = able or range(len(options))
            key = "dollars" if problem.goal.objective is Objective.COST else "area"
            choice.append(
                min(by_need, key=lambda place, of=options: getattr(of[place], key))  # type: ignore[misc]
                if able
                else min(by_need, key=lambda place, of=options: of[place].seconds)  # type: ignore[misc]
            )
        order = sorted(
            range(len(problem.jobs)), key=lambda job: (-problem.options[job][choice[job]].area, job)
        )
        found.append(list_schedule(problem, choice, order))
    return found


def _area_bound(problem: PlanProblem) -> LowerBound:
    """Return the larger of the longest job and of the least areas over all devices."""
    devices = sum(pool.devices for pool in problem.pools)
    area = sum(min(option.area for option in options) for options in problem.options) / devices
    longest = max(min(option.seconds for option in options) for options in problem.options)
    if longest > area:
        return LowerBound(value=float(longest), name="longest job")
    return LowerBound(value=area, name="area")
