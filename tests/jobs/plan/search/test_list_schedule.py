"""Jobs are placed where they can start first, urgent ones before others, in the options that they have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.plan.search.check import check
from slipway.jobs.plan.search.list_schedule import as_plan, list_schedule, urgent_first
from slipway.jobs.plan.search.model import Goal, LowerBound, PlanJob, Pool
from slipway.jobs.plan.search.options import PlanProblem, new_problem
from slipway.jobs.plan.search.refusals import CannotPlan, refuse_inputs
from tests.jobs.plan.search.small import POOL, TWO_NODES, job, problem_of


def on_two_nodes(*jobs: PlanJob) -> PlanProblem:
    return problem_of(*jobs, pool=TWO_NODES)


def test_jobs_fill_a_node_before_they_wait() -> None:
    slots = list_schedule(
        on_two_nodes(job("a", (8, 100)), job("b", (5, 50)), job("c", (3, 50))), [0] * 3, [0, 1, 2]
    )
    assert [slot.start for slot in slots] == [0, 0, 0]
    assert [slot.placement[0].node for slot in slots] == [0, 1, 1]
    assert set(slots[1].placement[0].devices).isdisjoint(slots[2].placement[0].devices)


def test_a_gang_takes_whole_nodes_when_all_of_them_are_free() -> None:
    slots = list_schedule(on_two_nodes(job("a", (3, 100)), job("gang", (16, 10))), [0, 0], [0, 1])
    assert (slots[1].start, [share.node for share in slots[1].placement]) == (100, [0, 1])


def test_a_job_starts_after_those_that_it_waits_for_in_whatever_order_they_come() -> None:
    problem = on_two_nodes(job("last", (1, 5), after=("first",)), job("first", (1, 70)))
    assert [slot.start for slot in list_schedule(problem, [0, 0], [0, 1])] == [70, 0]


def test_a_mode_that_is_slower_with_more_devices_is_no_option() -> None:
    (options,) = on_two_nodes(job("a", (1, 90), (2, 100), (4, 40))).options
    assert [(option.devices, option.seconds) for option in options] == [(1, 90), (4, 40)]


def test_a_plan_says_what_it_takes_and_how_far_from_the_best_it_may_be() -> None:
    problem = on_two_nodes(job("a", (8, 3600)), job("b", (8, 3600)))
    plan = as_plan(problem, list_schedule(problem, [0, 0], [0, 1]), LowerBound(value=3000, name="area"))
    assert (plan.makespan, plan.dollars) == (3600, 72.0)
    assert round(plan.gap, 3) == 0.2


# A search may choose Spot only for jobs without a deadline.
SPOT = Pool(
    type="p4d",
    nodes=2,
    devices_per_node=8,
    price_per_hour=12.0,
    is_spot=True,
    interruptions_per_hour=0.1,
    rework_seconds=360,
)
FREE, URGENT, FIRST = job("free", (8, 1000)), job("urgent", (8, 1000), deadline=9000), job("first", (8, 1000))


def test_spot_takes_as_long_as_its_interruptions_repeat() -> None:
    ((on_demand, spot),) = new_problem([FREE], [POOL, SPOT], Goal()).options
    assert (on_demand.seconds, spot.seconds) == (1000, 1010)
    assert spot.dollars < on_demand.dollars


def test_the_checker_expects_as_much_for_interruptions_as_a_search_adds() -> None:
    pool = replace(SPOT, nodes=4, interruptions_per_hour=0.05, rework_seconds=60)
    for seconds in (3600, 7200, 10**9):  # on four nodes, sums of floats are on both sides of a whole number
        problem = new_problem([job("gang", (32, seconds))], [pool], Goal())
        check(as_plan(problem, list_schedule(problem, [0], [0])))


def test_a_deadline_is_kept_without_spot_and_so_is_what_comes_before_it() -> None:
    jobs = [FREE, FIRST, replace(URGENT, depends_on=("first",))]
    options = new_problem(jobs, [POOL, SPOT], Goal()).options
    assert [[option.pool for option in of_job] for of_job in options] == [[0, 1], [0], [0]]


def test_a_deadline_with_nothing_but_spot_is_refused() -> None:
    with pytest.raises(
        CannotPlan, match="'urgent' has to end by a deadline, and every pool that it fits is spot"
    ):
        refuse_inputs([FREE, URGENT], [SPOT], Goal())


# Urgent jobs come first among jobs that share their devices, and nothing else moves.


def starts(problem: PlanProblem) -> list[int]:
    slots = list_schedule(problem, [0] * len(problem.jobs), range(len(problem.jobs)))
    turned = urgent_first(problem, slots)
    check(as_plan(problem, turned))
    return [slot.start for slot in turned]


def test_higher_priorities_and_earlier_deadlines_go_first() -> None:
    jobs = [job("a", (8, 10)), job("b", (8, 20)), job("c", (8, 30)), job("d", (8, 40), deadline=40)]
    assert starts(problem_of(*jobs[:2], replace(jobs[2], priority=5), jobs[3])) == [70, 80, 40, 0]


def test_a_job_that_others_wait_for_keeps_its_place() -> None:
    last = replace(job("last", (8, 10), after=("first",)), priority=9)
    assert starts(problem_of(job("first", (8, 50)), last)) == [0, 50]


def test_jobs_on_other_devices_keep_their_places() -> None:
    jobs = [job("a", (5, 10)), job("b", (3, 40)), replace(job("c", (8, 30)), priority=3)]
    assert starts(problem_of(*jobs)) == [0, 0, 40]


def test_a_job_in_a_gap_is_not_overrun() -> None:
    urgent = replace(job("b", (4, 30)), priority=3)
    jobs = [job("a", (4, 10)), job("long", (4, 60)), job("gap", (2, 20)), urgent]
    assert starts(problem_of(*jobs)) == [0, 0, 10, 30]
