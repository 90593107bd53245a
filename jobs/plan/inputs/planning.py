"""Plan many jobs at once: check the inputs, search, and check what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack, get_type_hints

from slipway.jobs.plan.inputs.portfolio import Incumbent, Portfolio, SearchLimits, search_counted
from slipway.jobs.plan.search.check import check
from slipway.jobs.plan.search.explain import AnsweredPlan
from slipway.jobs.plan.search.model import Billing, Goal, LowerBound, Objective, Plan, PlanJob, Pool
from slipway.jobs.plan.search.options import PlanProblem, new_problem
from slipway.jobs.plan.search.refusals import CannotPlan, quoted, refuse_inputs, shown, word_of
from slipway.jobs.words.errors import did_you_mean
from slipway.jobs.words.given import checked, wrong_values
from slipway.jobs.words.run import SECONDS_PER_HOUR
from slipway.jobs.words.text import money

if TYPE_CHECKING:
    from slipway.jobs.plan.search.bounds.table import OptionTable

Progress = Callable[[Plan], None]
LONGEST_SEARCH_SECONDS = 86_400


class PlanOptions(TypedDict, total=False):
    """Options of `plan`: the goal, and how long to search."""

    objective: Objective | str  # makespan (default) or cost
    deadline: int | None  # seconds
    budget: float | None  # dollars
    billing: Billing | str  # device (default) or node
    time_limit: float  # seconds; default 60
    target_gap: float  # as a share of the bound; default 0.01
    seed: int  # default 0
    iterations: int | None  # per search, in this process, instead of a time limit: same input, same plan
    progress: Progress | None  # called with each better plan or bound


@checked
def plan(jobs: Sequence[PlanJob], pools: Sequence[Pool], **options: Unpack[PlanOptions]) -> AnsweredPlan:
    """Plan the jobs over the pools; search until the gap is small enough or the time limit is reached.

    An interrupt (Ctrl-C) ends the search: the best plan so far is returned.
    """
    _refuse_options(options)
    goal = Goal(
        objective=word_of("objective", options.get("objective", Objective.MAKESPAN), Objective),
        deadline=options.get("deadline"),
        budget=options.get("budget"),
        billing=word_of("billing", options.get("billing", Billing.DEVICE), Billing),
    )
    refuse_inputs(jobs, pools, goal)
    best = _first(new_problem(jobs, pools, goal))
    progress = options.get("progress") or (lambda _: None)

    def told() -> None:
        if best.is_valid:
            progress(best.plan())

    told()
    found = best.plan(_search(best, options, told))
    _refuse_missed(best, found)
    check(found)
    return AnsweredPlan.of(found)


def _refuse_options(options: PlanOptions) -> None:
    """Refuse the names, types and values that the command line refuses, too."""
    hints = get_type_hints(PlanOptions)
    for name in options:
        if name not in hints:
            known = did_you_mean(name, hints, otherwise=f"there are {', '.join(hints)}")
            raise CannotPlan(f"plan() has no option {quoted(name)}", hint=known)
    for problem in wrong_values(hints, options):
        raise CannotPlan(str(problem), hint="slipway plan make --help says what each means")
    refuse_limits(options)


def refuse_limits(options: PlanOptions) -> None:
    """Refuse limits that no search can keep, such as nan."""
    for name, value, least, most in (
        ("time_limit", options.get("time_limit"), 0, LONGEST_SEARCH_SECONDS),
        ("target_gap", options.get("target_gap"), 0, math.inf),
        ("seed", options.get("seed"), 0, math.inf),
        ("iterations", options.get("iterations"), 0, math.inf),
    ):
        if value is not None and not (least <= value <= most and value < math.inf):
            end = f" to {most}" if most < math.inf else " or more"
            raise CannotPlan(f"{name} is {shown(value)}; allowed is {least}{end}", hint=f"correct {name}")


def _search(best: Incumbent, options: PlanOptions, told: Callable[[], None]) -> str:
    """Search as the options say, and return why the search ended."""
    limits = SearchLimits(
        seconds=options.get("time_limit", 60.0),
        target_gap=options.get("target_gap", 0.01),
        seed=options.get("seed", 0),
    )
    iterations = options.get("iterations")
    if iterations is not None:
        return search_counted(best, iterations, limits)
    return Portfolio(best, limits, told).run()


def _first(problem: PlanProblem) -> Incumbent:
    """Return the first plan and the quick bounds."""
    from slipway.jobs.plan.search.bounds.prove import cheapest, least_makespan
    from slipway.jobs.plan.search.bounds.table import OptionTable
    from slipway.jobs.plan.search.first_plan import greedy

    table = OptionTable(problem)
    makespan = LowerBound(value=least_makespan(table)[0], name="area")
    _refuse_unreachable(table, makespan)
    is_cost = problem.goal.objective is Objective.COST
    bound = LowerBound(value=cheapest(table), name="cheapest modes") if is_cost else makespan
    return Incumbent(problem, greedy(problem), bound)


def _refuse_missed(best: Incumbent, found: Plan) -> None:
    """Refuse a plan that misses a deadline or the budget; say so if it is proven that every plan does."""
    if best.is_valid:
        return
    goal = found.goal
    none = "there is no plan" if best.is_impossible else "no plan was found"
    longer = "" if best.is_impossible else ", or search longer with --time-limit"
    for job, each in zip(found.jobs, found.assignments, strict=True):
        if job.deadline is not None and each.end > job.deadline:
            raise CannotPlan(
                f"{none} that ends every job by its deadline; in the best, {quoted(job.name)} ends at "
                f"{_in_hours(each.end)} and has until {_in_hours(job.deadline)}",
                hint=f"allow more time{longer}",
            )
    if goal.deadline is not None and found.makespan > goal.deadline:
        raise CannotPlan(
            f"{none} that ends by {_in_hours(goal.deadline)}; the best ends at {_in_hours(found.makespan)}",
            hint=f"allow more time{longer}",
        )
    raise CannotPlan(
        f"{none} for {money(goal.budget or 0)} dollars; the best costs {money(found.dollars)}",
        hint=f"allow more dollars{longer}",
    )


# Refuse a goal that no plan can reach, and say how near a plan may come.


def _refuse_unreachable(table: OptionTable, makespan: LowerBound) -> None:
    """Raise CannotPlan if a deadline or the budget is below what every plan needs."""
    from slipway.jobs.plan.search.bounds.prove import cheapest

    earliest_ends = table.before + table.seconds.min(axis=1)
    for job, earliest in zip(table.problem.jobs, earliest_ends.tolist(), strict=True):
        if job.deadline is not None and job.deadline < earliest:
            waits = " after the jobs that it waits for" if job.depends_on else ""
            raise CannotPlan(
                f"job {quoted(job.name)} has a deadline of {_in_hours(job.deadline)}, and its fastest "
                f"mode{waits} ends at {_in_hours(earliest)}",
                hint="give it more time, or a faster mode",
            )
    deadline, budget = table.problem.goal.deadline, table.problem.goal.budget
    if deadline is not None and deadline < makespan.value:
        raise CannotPlan(
            f"the deadline is {_in_hours(deadline)}, and no plan ends before {_in_hours(makespan.value)} "
            f"(lower bound: {makespan.name})",
            hint=f"allow at least {math.ceil(makespan.value)} s, or add nodes",
        )
    least = cheapest(table)
    if budget is not None and budget < least * (1 - 1e-9):
        up = math.ceil(least / 0.01) * 0.01  # to whole cents
        raise CannotPlan(
            f"the budget is {money(budget)} dollars, and no plan costs less than {money(up)} (every "
            "job in its cheapest mode)",
            hint=f"allow at least {up:.2f} dollars, or add a cheaper pool",
        )


def _in_hours(seconds: float) -> str:
    """Write a time in seconds, and in hours if it is long."""
    if seconds < SECONDS_PER_HOUR:
        return f"{seconds:,.0f} s"
    return f"{seconds:,.0f} s ({seconds / SECONDS_PER_HOUR:,.2f} h)"
