"""One workload on one place: what a user reads in a row, and what is refused with what works."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.estimate import CannotEstimate
from slipway.jobs.estimate.estimates import Estimate, PricedHardware, estimate, estimate_sizes
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.pareto import BEATEN, BEST, UNDECIDED, verdicts
from slipway.jobs.estimate.prices import Overheads, find_rate, known_rates
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


def test_what_was_measured_is_printed_as_measured_beside_what_is_predicted() -> None:
    found = ask("bert-large", DL1, 8)
    assert found.sequences_per_second == 9977.54
    assert found.predicted_sequences_per_second == pytest.approx(9977.54, rel=0.04)
    assert found.efficiency == pytest.approx(0.9039, abs=1e-4)


def test_a_job_s_time_is_that_of_the_article() -> None:
    """MRPC, three epochs on one node: 7 minutes 46 seconds."""
    found = ask("mrpc", place("c6i.16xlarge"), 1)
    assert found.hours is not None
    assert found.hours * 3600 == pytest.approx(7 * 60 + 46, abs=0.5)


def test_tokens_per_dollar_are_the_article_s_at_its_rate() -> None:
    rate = find_rate(known_rates(), "trn1.32xlarge", None, "3-year")
    found = ask("pythia-6.9b", place("trn1.32xlarge", rate=rate), 4)
    assert found.tokens_per_dollar == 8_693_881


@given(st.floats(0.01, 1000), st.floats(1.01, 50))
def test_dollars_scale_linearly_with_price(usd: float, times: float) -> None:
    assert DL1.rate is not None
    cheap = ask("bert-large", replace(DL1, rate=replace(DL1.rate, usd_per_hour=usd)), 4)
    dear = ask("bert-large", replace(DL1, rate=replace(DL1.rate, usd_per_hour=usd * times)), 4)
    assert cheap.usd is not None
    assert dear.usd == pytest.approx(cheap.usd * times)


def test_an_unknown_price_leaves_dollars_unknown_and_never_nothing() -> None:
    found = ask("bert-large", place("p5e.48xlarge"), 1)
    assert (found.usd, found.usd_per_hour, found.tokens_per_dollar) == (None, None, None)
    assert found.hours is not None


def test_what_stands_around_the_nodes_is_in_the_price_and_what_has_none_is_named() -> None:
    overheads = Overheads(interface_endpoints=10, file_system="efs", file_system_item="efs")
    alone, cluster = ask("bert-large", DL1, 2), ask("bert-large", replace(DL1, overheads=overheads), 2)
    assert alone.usd_per_hour is not None
    assert cluster.usd_per_hour == pytest.approx(alone.usd_per_hour + 0.1)
    assert [each.partition(":")[0] for each in cluster.unpriced] == ["efs"]
    assert not alone.unpriced


def test_what_does_not_fit_is_refused_with_the_setting_that_does_and_that_one_is_accepted() -> None:
    with pytest.raises(CannotEstimate, match=r"does not fit 1 × trn1\.32xlarge: a device needs") as refused:
        ask("gpt-neox-20b", place("trn1.32xlarge"), 1)
    assert refused.value.hint == "it fits with --set checkpointing=full"
    assert ask("gpt-neox-20b", place("trn1.32xlarge"), 1, checkpointing="full").memory_gib > 0


@pytest.mark.parametrize(("nodes", "message"), [(0, "0 nodes"), (-1, "-1 nodes"), (10**9, "1 to 10,000")])
def test_a_number_of_nodes_that_cannot_be_is_refused(nodes: int, message: str) -> None:
    with pytest.raises(CannotEstimate, match=message):
        ask("bert-large", DL1, nodes)


def test_more_nodes_than_the_cluster_declares_are_refused_with_how_many_it_does() -> None:
    with pytest.raises(CannotEstimate, match="more than the 4 that cluster") as refused:
        ask("bert-large", replace(DL1, most_nodes=4), 8)
    assert "at most 4" in refused.value.hint


def test_a_recipe_is_refused_on_a_device_that_it_cannot_train_on() -> None:
    only = replace(find_workload("bert-large"), devices=("cuda",))
    with pytest.raises(CannotEstimate, match="cannot train on gaudi"):
        estimate(only, DL1, 1, ROWS)


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"micro_bach": "4"}, "no such setting", "did you mean micro_batch?"),
        ({"micro_batch": "four"}, "must be a whole number", "16"),
        ({"micro_batch": "-4"}, "must be 1 or more", "16"),
        ({"micro_batch": "99999999999"}, "from 1 to 10,000,000", ""),
        ({"sharding": "zero9"}, "allowed are none, zero1", ""),
        ({"tensor": "3"}, "does not divide 16 heads", "nearest that does is 2"),
        ({"global_batch": "1000"}, "not a multiple of the 512", "512 or 1024"),
        ({"offload": "maybe"}, "allowed are true, false", "offload=true"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_what_can(
    settings: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(CannotEstimate, match=message) as refused:
        ask("bert-large", DL1, 1, **settings)
    assert hint in refused.value.hint


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
    """B200, of which we have no published row, and a processor with AMX, which does a tenth of its peak."""
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
