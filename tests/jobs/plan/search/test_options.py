"""What a search may choose from: spot only where nobody has promised a deadline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.plan.search.model import Goal, Pool
from slipway.jobs.plan.search.options import new_problem
from slipway.jobs.plan.search.refusals import CannotPlan, refuse_inputs
from tests.jobs.plan.search.small import POOL, job

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


def test_a_deadline_is_kept_without_spot_and_so_is_what_comes_before_it() -> None:
    jobs = [FREE, FIRST, replace(URGENT, depends_on=("first",))]
    options = new_problem(jobs, [POOL, SPOT], Goal()).options
    assert [[option.pool for option in of_job] for of_job in options] == [[0, 1], [0], [0]]


def test_a_deadline_with_nothing_but_spot_is_refused() -> None:
    with pytest.raises(
        CannotPlan, match="'urgent' has to end by a deadline, and every pool that it fits is spot"
    ):
        refuse_inputs([FREE, URGENT], [SPOT], Goal())
