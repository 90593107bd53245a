"""Exact search proves the best plan for every goal, in a process of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from slipway.jobs.plan.inputs.portfolio import SearchProcess, is_installed
from slipway.jobs.plan.inputs.worker import SearchOrder, decode_slots
from slipway.jobs.plan.search.first_plan import greedy
from slipway.jobs.plan.search.list_schedule import as_plan
from slipway.jobs.plan.search.model import NO_BOUND, Billing, Goal, LowerBound, Objective, Plan
from slipway.jobs.plan.search.options import PlanProblem
from tests.jobs.plan.search.small import POOL, TWO_NODES, cut_jobs, job, problem_of

pytestmark = pytest.mark.skipif(not is_installed("exact"), reason="needs ortools: the extra cpsat")


def answers_of(problem: PlanProblem) -> list[Mapping[str, object]]:
    order = SearchOrder(search="exact", problem=problem, seed=0, start=greedy(problem), bound=NO_BOUND)
    process, heard = SearchProcess(order), []
    while (answers := process.read()) is not None:
        heard += answers
    process.stop()
    return heard


def proven_plan(problem: PlanProblem) -> Plan:
    """Return the last plan that was found, with the last bound."""
    slots, bound = greedy(problem), NO_BOUND
    for answer in answers_of(problem):
        assert "failed" not in answer, answer
        if "slots" in answer:
            slots = decode_slots(problem, answer["slots"])  # type: ignore[arg-type]
        else:
            bound = LowerBound(**answer["bound"])  # type: ignore[arg-type]
    return as_plan(problem, slots, bound)


def test_pieces_of_a_rectangle_are_put_together_and_nothing_is_shorter() -> None:
    plan = proven_plan(problem_of(*cut_jobs()))
    assert (plan.makespan, plan.bound) == (1000, LowerBound(value=1000, name="exact search"))


def test_the_cheapest_plan_before_a_deadline_is_proven() -> None:
    jobs = [job(f"job{place}", (1, 800), (8, 150)) for place in range(3)]
    plan = proven_plan(problem_of(*jobs, goal=Goal(objective=Objective.COST, deadline=950)))
    assert plan.dollars == pytest.approx(3 * 36 * 800 / 8 / 3600)
    assert plan.bound.value == pytest.approx(plan.dollars)


def test_billed_nodes_are_shared_as_long_as_they_last() -> None:
    jobs = [job(f"job{place}", (4, 100)) for place in range(4)]
    goal = Goal(objective=Objective.COST, deadline=900, billing=Billing.NODE)
    plan = proven_plan(problem_of(*jobs, pool=replace(POOL, nodes=3), goal=goal))
    assert plan.dollars == pytest.approx(2 * 36 * 100 / 3600)
    assert plan.bound.value == pytest.approx(plan.dollars, rel=1e-3)


def test_limits_that_no_plan_keeps_are_told_by_an_infinite_bound() -> None:
    jobs = [job(f"job{place}", (8, 100), deadline=150) for place in range(2)]
    last = answers_of(problem_of(*jobs))[-1]
    assert last == {"bound": {"value": math.inf, "name": "exact search"}}


def test_a_gang_over_two_nodes_waits_for_both() -> None:
    jobs = [job("gang", (16, 100)), job("one", (3, 50)), job("two", (8, 60))]
    plan = proven_plan(problem_of(*jobs, pool=TWO_NODES))
    assert plan.makespan == plan.bound.value == 160
