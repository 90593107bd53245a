"""Measure plans: the proven gap after a minute on two cores, against plans that need no search.

Problems are generated from seeds by scripts/plan_instances.py, which makes others, too. Each row below gives
the kind, the jobs and the nodes of a problem.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping

from scripts.benchmark_rows import Row, seconds_of
from scripts.plan_comparisons import marginal_gain, whole_node
from scripts.plan_instances import make_instance
from scripts.plan_simulation import ReplannedRun, fixed_makespan, true_factors
from scripts.saturn_milp import saturn_makespan
from slipway.jobs.plan.inputs.planning import plan
from slipway.jobs.plan.search.first_plan import greedy
from slipway.jobs.plan.search.list_schedule import score_of
from slipway.jobs.plan.search.model import Goal, Objective, Plan
from slipway.jobs.plan.search.options import PlanProblem, new_problem

SECONDS = 60.0
CLOSE_ENOUGH = 0.001  # small enough that the search uses all of its time
# Kind, jobs, nodes, and the goal for the gap in percent.
MAKESPANS: tuple[tuple[str, int, int, float], ...] = (
    ("mix", 12, 1, 1.5),
    ("cut", 12, 1, 1.5),
    ("mix", 32, 4, 2.5),
    ("cut", 32, 4, 2.5),
    ("mix", 100, 16, 2.0),
    ("cut", 100, 16, 2.0),
    ("mix", 300, 32, 2.0),
    ("mix", 1000, 128, 2.0),
    ("cut", 1000, 128, 2.0),
    ("pools", 24, 14, 0.1),
    ("pools", 100, 14, 3.0),
    ("gangs", 100, 16, 3.0),
    ("gangs", 1000, 128, 5.0),
)
DEADLINES: Mapping[float, float] = {1.05: 5.0, 1.25: 2.0, 2.0: 2.0}  # × the best makespan: goal in %
WITHOUT_SEARCH = {"greedy": greedy, "whole node": whole_node, "marginal gain": marginal_gain}
ERROR, SWITCH_SECONDS, RUNS = 0.2, 300, 5


def plans() -> Iterator[Row]:
    problem = problem_of("mix", 1000, 128)
    seconds = seconds_of(lambda: greedy(problem), time.process_time)
    yield Row(what="first plan, 1000 x 1024", measured=f"{seconds:.2f} s CPU", beside="", goal="under 1 s")
    for kind, jobs, nodes, goal in MAKESPANS:
        problem = problem_of(kind, jobs, nodes)
        found = _planned(problem)
        devices = sum(pool.devices for pool in problem.pools)
        others = [
            f"{name} {score_of(problem, way(problem))[2] / found.bound.value:.3f}"
            for name, way in WITHOUT_SEARCH.items()
        ]
        yield _row(f"{kind} {jobs} x {devices}", found, ", ".join(others), goal)
    shortest = _planned(problem_of("pools", 100, 14)).makespan
    for stretch, goal in DEADLINES.items():
        deadline = math.floor(shortest * stretch)
        found = _planned(problem_of("pools", 100, 14, Goal(objective=Objective.COST, deadline=deadline)))
        yield _row(f"dollars, pools 100, deadline {stretch} x", found, f"${found.dollars:,.0f}", goal)
    yield _saturn()
    yield _wrong_estimates()


def problem_of(kind: str, jobs: int, nodes: int, goal: Goal | None = None) -> PlanProblem:
    return new_problem(*make_instance(kind, jobs, nodes), goal or Goal())


def _planned(problem: PlanProblem) -> Plan:
    goal = problem.goal
    return plan(
        problem.jobs,
        problem.pools,
        objective=goal.objective,
        deadline=goal.deadline,
        time_limit=SECONDS,
        target_gap=CLOSE_ENOUGH,
    )


def _row(what: str, found: Plan, beside: str, goal: float) -> Row:
    return Row(
        what=what,
        measured=f"gap {found.gap:.2%}",
        beside=beside,
        ratio=found.bound.name,
        goal=f"at most {goal} %",
    )


def _saturn() -> Row:
    problem = problem_of("mix", 12, 1)
    found = saturn_makespan(problem, SECONDS)
    ours = _planned(problem)
    theirs = "no plan" if found is None else f"{found / ours.bound.value:.3f} of the bound"
    return Row(
        what="Saturn's MILP with HiGHS, mix 12 x 8",
        measured=f"ours {ours.value / ours.bound.value:.3f}",
        beside=f"in {SECONDS:.0f} s: {theirs}",
    )


def _wrong_estimates() -> Row:
    found = _planned(problem_of("mix", 32, 4))
    fixed, again = [], []
    for seed in range(RUNS):
        factors = true_factors(found, ERROR, seed)
        run = ReplannedRun(plan=found, factors=factors, switch_seconds=SWITCH_SECONDS, solve=greedy)
        fixed.append(fixed_makespan(found, factors) / found.makespan)
        again.append(run.makespan() / found.makespan)
    return Row(
        what=f"mix 32 x 32, estimates off by {ERROR:.0%}, switches of {SWITCH_SECONDS} s",
        measured=f"{statistics.mean(again) - 1:.1%} late",
        beside=f"a fixed plan {statistics.mean(fixed) - 1:.1%}",
        goal="at most 7 %",
    )
