"""`plan` searches with several processes, says why it ends, leaves no process, and keeps valid plans."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

import slipway
from slipway.jobs.plan.inputs import portfolio
from slipway.jobs.plan.inputs.portfolio import Incumbent, Portfolio, SearchLimits, SearchProcess, is_installed
from slipway.jobs.plan.inputs.worker import SearchOrder, decode_order, encode_order
from slipway.jobs.plan.search.list_schedule import Slot, list_schedule
from slipway.jobs.plan.search.model import NO_BOUND, LowerBound, Plan
from slipway.jobs.plan.search.options import PlanProblem
from slipway.jobs.plan.search.refusals import CannotPlan
from tests.jobs.plan.search.small import POOL, cut_jobs, job, problem_of

LIMITS = SearchLimits(seconds=100, target_gap=0.0, seed=0)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SearchProcess]]:
    """Record each process that is started; all have ended when the test is over."""
    every: list[SearchProcess] = []

    def start(order: SearchOrder) -> SearchProcess:
        every.append(SearchProcess(order))
        return every[-1]

    monkeypatch.setattr(portfolio, "SearchProcess", start)
    yield every
    assert [process for process in every if not process.has_ended] == []


def poor(problem: PlanProblem) -> list[Slot]:
    """Return a plan in which every job takes the option with the fewest devices."""
    return list_schedule(problem, [0] * len(problem.jobs), range(len(problem.jobs)))


def incumbent_of(problem: PlanProblem, bound: LowerBound = NO_BOUND) -> Incumbent:
    return Incumbent(problem, poor(problem), bound)


def test_a_search_ends_with_its_target(started: list[SearchProcess]) -> None:
    best = incumbent_of(problem_of(*cut_jobs()), LowerBound(value=1000, name="area"))
    limits = replace(LIMITS, target_gap=0.5)
    assert Portfolio(best, limits, lambda: None).run() in ("target", "proven")
    assert best.plan().gap <= 0.5


def test_an_interrupt_keeps_the_best_plan(started: list[SearchProcess]) -> None:
    best = incumbent_of(problem_of(*cut_jobs()))
    before = best.plan().value

    def interrupt() -> None:
        raise KeyboardInterrupt

    assert Portfolio(best, LIMITS, interrupt).run() == "interrupted"
    assert best.plan().value <= before
    assert started


def test_processes_that_die_end_the_search_without_an_error(
    started: list[SearchProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portfolio, "WORKER", (sys.executable, "-c", "raise SystemExit(1)"))
    best = incumbent_of(problem_of(*cut_jobs()))
    assert Portfolio(best, LIMITS, lambda: None).run() == "nothing left to search"


def test_one_core_searches_as_well(started: list[SearchProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "cores_to_use", lambda: 1)
    best = incumbent_of(problem_of(*cut_jobs()), LowerBound(value=1000, name="area"))
    assert Portfolio(best, LIMITS, lambda: None).run() == "proven"


def test_a_process_ends_with_its_parent() -> None:
    problem = problem_of(*cut_jobs(), *[replace(each, name=f"{each.name}-2") for each in cut_jobs()])
    order = SearchOrder(search="lanes", problem=problem, seed=0, start=poor(problem), bound=NO_BOUND)
    process = subprocess.Popen(portfolio.WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    process.stdin.write(encode_order(order) + "\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.stdin.close()
    assert process.wait(300) == 0
    process.stdout.close()


def test_a_plan_that_breaks_a_rule_is_thrown_away(caplog: pytest.LogCaptureFixture) -> None:
    best = incumbent_of(problem_of(*cut_jobs()))
    widest = list_schedule(best.problem, [-1] * len(best.slots), range(len(best.slots)))
    assert not best.offer([replace(slot, start=0) for slot in widest])
    assert "both have device" in caplog.text


def test_a_bound_above_a_plan_is_thrown_away(caplog: pytest.LogCaptureFixture) -> None:
    best = incumbent_of(problem_of(*cut_jobs()))
    assert not best.raise_to(LowerBound(value=10**6, name="wrong"))
    assert "a bound above a plan" in caplog.text
    assert best.raise_to(LowerBound(value=900, name="area"))


def test_a_problem_survives_its_way_to_a_process() -> None:
    problem = problem_of(*cut_jobs(), job("late", (2, 50), deadline=900))
    order = SearchOrder(search="lanes", problem=problem, seed=3, start=poor(problem), bound=NO_BOUND)
    assert decode_order(encode_order(order)) == order


def test_a_search_whose_package_is_missing_gets_no_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "find_spec", lambda _: None)
    problem = problem_of(*cut_jobs())
    for core in portfolio.shifts_of(problem, 2, 0):
        assert {next(core).search for _ in range(8)} <= {"bound", "lanes", "annealing"}


def test_a_plan_that_nothing_beats_is_found_and_told() -> None:
    told: list[Plan] = []
    plan = slipway.plan(cut_jobs(), [POOL], target_gap=0.0, progress=told.append)
    assert (plan.makespan, plan.gap, plan.stopped) == (1000, 0.0, "proven")
    assert told[0].value >= told[-1].value == 1000


def test_the_same_iterations_find_the_same_plan() -> None:
    jobs = [*cut_jobs(), job("more", (3, 70)), job("most", (1, 400), (7, 60))]
    first, second = (slipway.plan(jobs, [POOL], target_gap=0.0, seed=5, iterations=2) for _ in range(2))
    assert first == second


def test_no_time_gives_the_first_plan() -> None:
    plan = slipway.plan([*cut_jobs(), job("more", (3, 70))], [POOL], target_gap=0.0, time_limit=0)
    assert plan.stopped in ("time limit", "proven")
    assert len(plan.assignments) == 6


@pytest.mark.skipif(not is_installed("exact"), reason="needs ortools: the extra cpsat")
def test_deadlines_that_no_plan_keeps_together_are_refused_with_the_proof() -> None:
    jobs = [job(f"job{place}", (8, 100), deadline=150) for place in range(2)]
    with pytest.raises(CannotPlan, match="there is no plan that ends every job by its deadline"):
        slipway.plan(jobs, [POOL], time_limit=100)


def test_a_job_with_a_deadline_goes_first() -> None:
    jobs = [*(job(f"job{place}", (8, 100)) for place in range(3)), job("urgent", (8, 90), deadline=190)]
    assert slipway.plan(jobs, [POOL]).assignments[-1].end <= 190


def test_a_plan_explains_its_choices_and_compares_itself_with_another() -> None:
    jobs = cut_jobs()
    earlier = slipway.plan(jobs, [POOL], time_limit=0)
    assert earlier.explain(jobs[0].name).why
    found = earlier.diff(earlier)
    assert (found.changes, found.same) == ((), len(jobs))
