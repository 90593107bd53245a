"""The instruments that measure plans are right: instances, wrong estimates, and Saturn's formulation."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scripts.benchmarks_plans import problem_of
from scripts.plan_instances import KINDS, KNOWN_OPTIMUM, make_instance
from scripts.plan_simulation import ReplannedRun, fixed_makespan
from scripts.saturn_milp import saturn_makespan
from slipway.jobs.plan.search.bounds.prove import prove
from slipway.jobs.plan.search.check import check
from slipway.jobs.plan.search.first_plan import greedy
from slipway.jobs.plan.search.list_schedule import as_plan
from slipway.jobs.plan.search.model import Goal, LowerBound, Mode, Plan, PlanJob, Pool
from slipway.jobs.plan.search.options import PlanProblem, new_problem


def greedy_plan(problem: PlanProblem) -> Plan:
    return as_plan(problem, greedy(problem))


@pytest.mark.parametrize("kind", KINDS)
def test_an_instance_is_made_of_its_seed_alone(kind: str) -> None:
    assert make_instance(kind, 20, 7, 3) == make_instance(kind, 20, 7, 3)
    assert make_instance(kind, 20, 7, 3) != make_instance(kind, 20, 7, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_instance_has_a_valid_plan(kind: str) -> None:
    problem = problem_of(kind, 20, 7)
    assert len(problem.jobs) == 20
    check(greedy_plan(problem))


def test_the_bound_of_a_cut_instance_is_its_known_best() -> None:
    for jobs, nodes in ((12, 1), (30, 4)):
        found: list[LowerBound] = []
        prove(problem_of("cut", jobs, nodes), keep_going=lambda: True, proven=found.append)
        assert found[-1].value == KNOWN_OPTIMUM


def test_estimates_that_are_true_end_when_it_was_planned() -> None:
    plan = greedy_plan(problem_of("mix", 8, 1))
    factors: Mapping[str, float] = dict.fromkeys((job.name for job in plan.jobs), 1.0)
    run = ReplannedRun(plan=plan, factors=factors, switch_seconds=300, solve=greedy)
    assert run.makespan() <= plan.makespan + 10  # each new plan may round the rest of a job up
    assert fixed_makespan(plan, factors) == pytest.approx(plan.makespan)


def test_one_slow_job_is_given_more_devices_where_that_gains_more_than_the_switch() -> None:
    modes = tuple(
        Mode(technique="ddp", type="p4d", devices=count, seconds=40_000 // count) for count in (4, 8)
    )
    jobs = [PlanJob(name=name, modes=modes) for name in ("slow", "quick")]
    pool = Pool(type="p4d", nodes=1, devices_per_node=8, price_per_hour=32.0)
    plan = greedy_plan(new_problem(jobs, [pool], Goal()))
    factors = {"slow": 2.0, "quick": 0.5}
    run = ReplannedRun(plan=plan, factors=factors, switch_seconds=60, solve=greedy)
    assert run.makespan() < fixed_makespan(plan, factors)


def test_saturns_formulation_finds_the_best_of_few_jobs() -> None:
    modes = tuple(
        Mode(technique="ddp", type="p4d", devices=count, seconds=120 // count + 5 * count) for count in (1, 2)
    )
    jobs = [PlanJob(name=name, modes=modes) for name in ("a", "b", "c")]
    pool = Pool(type="p4d", nodes=1, devices_per_node=2, price_per_hour=32.0)
    assert saturn_makespan(new_problem(jobs, [pool], Goal()), 20) == pytest.approx(195)
