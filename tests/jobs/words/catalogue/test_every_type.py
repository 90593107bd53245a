"""The catalogue is right about the types that it takes from AWS's own list."""

from __future__ import annotations

import pytest

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.words.catalogue import every_type
from slipway.jobs.words.catalogue.hardware import device_of
from slipway.jobs.words.catalogue.instances import (
    InstanceType,
    every_instance_type,
    find_instance_type,
    instance_type,
    instance_types,
)
from slipway.jobs.words.errors import SlipwayError


def test_no_type_is_listed_twice() -> None:
    names = [known.name for known in every_instance_type()]
    assert len(names) == len(set(names)) > 1_300
    assert {known.name for known in instance_types()}.isdisjoint(every_type.names())


def test_every_type_says_where_its_facts_and_its_price_come_from_or_why_it_has_none() -> None:
    for known in every_instance_type():
        assert known.source
        assert known.price.source if known.price else known.unpriced_reason
        assert min(known.vcpus, known.memory_gib, known.network_gbps, known.network_cards) > 0
        assert 0 < known.baseline_gbps <= known.network_gbps
        assert known.efa_interfaces <= known.network_cards
        assert list(known.regions) == sorted(set(known.regions))


def test_every_accelerator_of_aws_has_a_row_and_a_word_for_what_trains_on_it() -> None:
    for known in every_instance_type():
        if known.accelerator is not None:
            assert known.accelerator.name
            assert known.accelerator.count >= 1
            assert known.accelerator.peak_tflops or known.peak_note
            assert device_of(known) != "cpu"


@pytest.mark.parametrize(
    ("name", "cores", "network", "baseline", "efa", "usd"),
    [
        ("g5.xlarge", 2, 10, 2.5, 0, 1.006),
        ("p5.4xlarge", 8, 100, 100, 1, 6.88),
        ("trn1.2xlarge", 4, 12.5, 3.125, 0, 1.34375),
        ("c6i.8xlarge", 16, 12.5, 12.5, 0, 1.36),
        ("m7i.8xlarge", 16, 12.5, 12.5, 0, 1.6128),
    ],
)
def test_a_size_below_the_largest_has_its_own_cores_network_and_price(
    name: str, cores: int, network: float, baseline: float, efa: int, usd: float
) -> None:
    known = instance_type(name)
    assert (known.cores, known.network_gbps, known.baseline_gbps) == (cores, network, baseline)
    assert known.efa_interfaces == efa
    assert known.price is not None
    assert (known.price.usd_per_hour, known.price.region, known.price.date) == (
        usd,
        "us-east-1",
        "2026-07-20",
    )


def test_nodes_exchange_gradients_at_what_aws_promises_not_at_what_it_allows_for_a_while() -> None:
    assert cluster_of(instance_type("g5.xlarge"), 2).inter_node_bytes_per_second == 2.5e9 / 8


def test_a_device_alone_in_its_node_has_no_link_and_several_have_the_familys() -> None:
    alone, several = instance_type("g5.xlarge").accelerator, instance_type("g5.12xlarge").accelerator
    largest = instance_type("g5.48xlarge").accelerator
    assert alone
    assert several
    assert largest
    assert (alone.count, alone.link_gb_s) == (1, 0)
    assert (several.count, several.link_gb_s) == (4, largest.link_gb_s)
    assert alone.peak_tflops == several.peak_tflops == largest.peak_tflops


def test_a_part_of_a_device_has_its_share_of_memory_and_peak() -> None:
    whole, eighth = instance_type("g6.xlarge").accelerator, instance_type("g6f.xlarge").accelerator
    assert whole
    assert eighth
    assert whole.peak_tflops
    assert eighth.count == 1
    assert eighth.memory_gib == pytest.approx(whole.memory_gib / 8, rel=1e-3)
    assert eighth.peak_tflops == pytest.approx(whole.peak_tflops / 8, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "like", "share"),
    [
        ("c6i.8xlarge", "c6i.32xlarge", 4),
        ("m6i.16xlarge", "c6i.32xlarge", 2),
        ("r7i.24xlarge", "c7i.48xlarge", 2),
    ],
)
def test_processors_have_their_cores_share_of_a_measured_types_peak(name: str, like: str, share: int) -> None:
    small, large = instance_type(name), instance_type(like)
    assert small.peak_tflops
    assert large.peak_tflops
    assert small.peak_tflops == pytest.approx(large.peak_tflops / share, rel=1e-3)
    assert like in small.peak_note
    assert cluster_of(small, 1).accelerator == cluster_of(large, 1).accelerator


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("m5.24xlarge", "the peak of m5.24xlarge is not known"),
        ("g7e.48xlarge", "the peak of g7e.48xlarge's NVIDIA RTX PRO 6000 96GB is not known"),
        ("inf2.48xlarge", "nothing of ours trains on inf2.48xlarge"),
    ],
)
def test_an_estimate_names_what_is_missing_of_a_type_instead_of_guessing(name: str, told: str) -> None:
    with pytest.raises(CannotEstimate, match=told):
        cluster_of(instance_type(name), 1)


def test_sagemaker_trains_on_types_that_its_api_takes_and_tells_that_their_price_is_unknown() -> None:
    theirs, ours = instance_type("ml.g5.12xlarge"), instance_type("g5.12xlarge")
    assert theirs.accelerator == ours.accelerator
    assert theirs.price is None
    assert "SageMaker" in theirs.unpriced_reason
    assert find_instance_type("ml.a1.large") is None


@pytest.mark.parametrize("name", ["", ",", "\n", "name", "#", "g5", "g5.xlarge,4", "G5.XLARGE", "x" * 10_000])
def test_what_is_no_name_of_a_type_finds_none(name: str) -> None:
    assert find_instance_type(name) is None


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("g5.13xlarge", "g5.12xlarge"), ("p4d.24xl", "p4d.24xlarge"), ("ml.p4d.24xlrge", "ml.p4d.24xlarge")],
)
def test_a_type_that_aws_does_not_name_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(SlipwayError, match=f"unknown instance type '{name}'") as refused:
        instance_type(name)
    assert nearest in refused.value.hint


def test_the_usual_types_are_told_without_reading_the_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_type, "_text", lambda: pytest.fail("the long list was read"))
    assert find_instance_type("dl1.24xlarge") is not None


def test_types_read_one_by_one_are_those_of_the_list() -> None:
    some: list[InstanceType] = list(every_instance_type())[len(instance_types()) :: 97]
    assert [find_instance_type(known.name) for known in some] == some
