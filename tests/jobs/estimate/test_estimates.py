"""An estimate's row tells a user about one workload on one place, or a refusal names what works."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.estimate.estimates import Estimate, PricedHardware, estimate, estimate_sizes
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.pareto import BEATEN, BEST, UNDECIDED, verdicts
from slipway.jobs.estimate.prices import find_rate, known_rates
from slipway.jobs.estimate.work.workloads import find_workload, names, with_settings
from slipway.jobs.words.catalogue.instances import instance_type

ROWS = our_measurements()


def place(name: str, **changed: object) -> PricedHardware:
    own = PricedHardware(
        name=name,
        instance=instance_type(name),
        rate=find_rate(known_rates(), name, None),
        region="us-east-1",
    )
    return replace(own, **changed)  # type: ignore[arg-type]


DL1 = place("dl1.24xlarge")


def ask(name: str, where: PricedHardware, nodes: int, **settings: str) -> Estimate:
    return estimate(with_settings(find_workload(name), settings), where, nodes, ROWS)


@given(st.floats(0.01, 1000), st.floats(1.01, 50))
def test_dollars_scale_linearly_with_price(usd: float, times: float) -> None:
    assert DL1.rate is not None
    cheap = ask("bert-large", replace(DL1, rate=replace(DL1.rate, usd_per_hour=usd)), 4)
    dear = ask("bert-large", replace(DL1, rate=replace(DL1.rate, usd_per_hour=usd * times)), 4)
    assert cheap.usd is not None
    assert dear.usd == pytest.approx(cheap.usd * times)


def test_saying_one_batch_takes_the_other_back() -> None:
    found = ask("bert-large", DL1, 1, accumulation_steps="2")
    assert (found.layout.global_batch, found.layout.accumulation_steps) == (None, 2)


@pytest.mark.parametrize("name", names())
def test_every_name_that_is_offered_can_be_estimated_somewhere(name: str) -> None:
    wide = [place(each) for each in ("dl1.24xlarge", "trn1.32xlarge", "p5.48xlarge")]
    assert any(estimate_sizes(find_workload(name), where, (1, 2, 4), ROWS) for where in wide)


def test_sizes_that_the_layout_cannot_have_take_the_nearest_that_fits_and_say_so() -> None:
    found = estimate_sizes(find_workload("gpt-neox-20b"), place("trn1.32xlarge"), (4, 1), ROWS)
    assert [(each.nodes, each.changed) for each in found] == [(1, "checkpointing=full"), (4, "")]
    assert all(each.memory_gib <= each.usable_gib for each in found)


def test_of_sizes_that_stand_on_one_measurement_the_best_are_those_that_nothing_beats_in_both() -> None:
    found = estimate_sizes(find_workload("bert-large"), DL1, (1, 2, 4, 8), ROWS)
    again = [replace(found[1], usd=found[1].usd * 0.9), replace(found[2], hours=found[2].hours * 2)]  # type: ignore[operator]
    rows = [*found, *again]
    for own, verdict in zip(rows, verdicts(rows), strict=True):
        beaten = any(
            other.hours <= own.hours and other.usd < own.usd  # type: ignore[operator]
            for other in rows
        )
        assert (verdict == BEATEN) == beaten


def test_a_place_without_a_price_is_on_no_front() -> None:
    found = estimate_sizes(find_workload("bert-large"), place("p5e.48xlarge"), (1, 2), ROWS)
    assert verdicts(found) == [BEATEN, BEATEN]


def test_dollars_and_hours_are_a_range_around_what_is_told() -> None:
    found = ask("bert-large", place("p4d.24xlarge"), 1)
    assert found.hours is not None
    assert found.usd is not None
    assert found.ranges.hours is not None
    assert found.ranges.usd is not None
    assert found.ranges.hours[0] < found.hours < found.ranges.hours[1]
    assert found.ranges.usd[0] < 618 < found.ranges.usd[1]  # at the rate that NVIDIA published
    assert found.usd == pytest.approx(618, rel=0.05)
    low, high = found.ranges.sequences_per_second
    assert high / found.sequences_per_second - 1 == pytest.approx(found.band)
    assert found.sequences_per_second / low == pytest.approx(1 + found.band)


def test_what_overlaps_is_not_told_apart_and_what_is_surely_slower_and_dearer_is_beaten() -> None:
    near, unknown = place("p4d.24xlarge"), place("p6-b200.48xlarge")
    both = [ask("bert-large", near, 2), ask("bert-large", unknown, 1)]
    assert verdicts(both) == [UNDECIDED, UNDECIDED]
    assert near.rate is not None
    dear = replace(near, rate=replace(near.rate, usd_per_hour=2000.0))
    slow = ask("bert-large", dear, 1)
    assert verdicts([*both, replace(slow, basis="another")]) == [UNDECIDED, UNDECIDED, BEATEN]


def test_sizes_that_stand_on_one_measurement_are_off_together_and_compared_as_they_are() -> None:
    found = estimate_sizes(find_workload("bert-large"), DL1, (1, 2, 4, 8), ROWS)
    assert verdicts(found) == [BEST] * 4
    dearer = replace(found[1], hours=found[1].hours * 1.01, usd=found[1].usd * 1.01)  # type: ignore[operator]
    assert verdicts([*found, dearer])[-1] == BEATEN


def test_what_nobody_measured_does_not_head_a_comparison() -> None:
    """B200, for which we have no published row, and a processor with AMX, at a tenth of its peak."""
    found = [
        ask("bert-large", place(name), 1) for name in ("p4d.24xlarge", "p6-b200.48xlarge", "c7i.48xlarge")
    ]
    cheapest = min(found, key=lambda each: each.usd or 0)
    assert cheapest.instance_type == "p4d.24xlarge"
    assert found[1].band > 2


def test_two_cores_of_a_single_chip_meet_in_its_memory() -> None:
    assert ask("mrpc", place("trn1.2xlarge"), 1).devices == 2


def test_a_tensor_split_between_nodes_of_one_device_each_is_slow_and_no_fault() -> None:
    one = ask("bert-large", place("p5.4xlarge"), 2, global_batch="1024", micro_batch="1")
    two = ask("bert-large", place("p5.4xlarge"), 2, global_batch="1024", micro_batch="1", tensor="2")
    assert two.sequences_per_second < one.sequences_per_second
