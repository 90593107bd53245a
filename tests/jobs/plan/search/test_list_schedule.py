"""Jobs are placed where they can start first, on one node or on whole ones, and after what they wait for."""

from __future__ import annotations

from slipway.jobs.plan.search.list_schedule import as_plan, list_schedule
from slipway.jobs.plan.search.model import LowerBound, PlanJob
from slipway.jobs.plan.search.options import PlanProblem
from tests.jobs.plan.search import small
from tests.jobs.plan.search.small import job


def on_two_nodes(*jobs: PlanJob) -> PlanProblem:
    return small.problem_of(*jobs, pool=small.TWO_NODES)


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
