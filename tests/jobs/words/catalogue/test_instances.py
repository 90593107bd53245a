"""The catalogue agrees with itself: a row that is added must pass here."""

from __future__ import annotations

import re
from datetime import date

import pytest
from botocore.session import get_session

from slipway.jobs.words.catalogue.instances import InstanceType, instance_type, instance_types, training_types
from slipway.jobs.words.errors import SlipwayError

EVERY_TYPE = pytest.mark.parametrize("known", instance_types(), ids=lambda known: known.name)


def test_no_type_has_two_rows() -> None:
    names = [known.name for known in instance_types()]
    assert len(names) == len(set(names))


@EVERY_TYPE
def test_a_type_is_named_as_aws_names_it_and_says_where_its_facts_come_from(known: InstanceType) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*\.(large|\d*xlarge|metal(-\d+xl)?)", known.name)
    assert known.architecture in ("x86_64", "arm64")
    assert known.source


@EVERY_TYPE
def test_sizes_are_above_nothing(known: InstanceType) -> None:
    assert min(known.vcpus, known.memory_gib, known.network_gbps, known.network_cards) > 0
    assert 0 <= known.efa_interfaces <= known.network_cards, "one EFA interface a card"


@EVERY_TYPE
def test_a_type_has_as_many_threads_as_its_cores_carry(known: InstanceType) -> None:
    if known.cores is not None:
        assert known.vcpus in (known.cores, 2 * known.cores)
        assert set(known.threads_per_core) <= {1, known.vcpus // known.cores}


@EVERY_TYPE
def test_what_ecs_registers_is_less_than_there_is(known: InstanceType) -> None:
    if known.registered_memory_mib is not None:
        assert 0.9 * known.memory_mib < known.registered_memory_mib < known.memory_mib


@EVERY_TYPE
def test_accelerators_have_a_number_a_memory_and_a_peak_with_its_source(known: InstanceType) -> None:
    if known.accelerator is None:
        return
    assert known.accelerator.name
    assert known.accelerator.peak_tflops
    assert min(known.accelerator.count, known.accelerator.memory_gib, known.accelerator.peak_tflops) > 0
    assert known.peak_tflops is None, "the peak is that of one device"
    assert known.peak_note
    assert known.accelerator.count == 1 or known.accelerator.link_gb_s > 0


@EVERY_TYPE
def test_a_price_has_a_region_a_day_and_a_source_and_a_missing_one_a_reason(known: InstanceType) -> None:
    if known.price is None:
        assert known.unpriced_reason
        return
    assert known.price.usd_per_hour > 0
    assert not known.regions or known.price.region in known.regions
    assert date(2020, 1, 1) < date.fromisoformat(known.price.date)
    assert known.price.source


@EVERY_TYPE
def test_regions_are_sorted_and_named_as_aws_names_them(known: InstanceType) -> None:
    assert list(known.regions) == sorted(set(known.regions))
    assert all(re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region) for region in known.regions)


@pytest.mark.parametrize(
    ("name", "interfaces"),
    [
        ("dl1.24xlarge", 4),
        ("trn1.2xlarge", 0),
        ("trn1.32xlarge", 8),
        ("trn1n.32xlarge", 16),
        ("p4d.24xlarge", 4),
        ("p5.48xlarge", 32),
        ("c6i.16xlarge", 0),
        ("c6i.32xlarge", 1),
    ],
)
def test_the_efa_interfaces_that_clusters_are_built_on(name: str, interfaces: int) -> None:
    assert instance_type(name).efa_interfaces == interfaces
    assert instance_type(name).has_efa == bool(interfaces)


def test_a_type_unlike_any_is_refused_with_the_command_that_lists_them() -> None:
    with pytest.raises(SlipwayError) as refused:
        instance_type("???")
    assert "slipway instance list --all" in refused.value.hint


def test_sagemakers_type_is_the_hardware_of_ec2s_at_a_price_of_its_own() -> None:
    ours, theirs = instance_type("p4d.24xlarge"), instance_type("ml.p4d.24xlarge")
    assert theirs.name == "ml.p4d.24xlarge"
    assert (theirs.accelerator, theirs.efa_interfaces) == (ours.accelerator, ours.efa_interfaces)
    assert ours.price is not None
    assert theirs.price is not None
    assert theirs.price.usd_per_hour > ours.price.usd_per_hour
    assert instance_type("ml.trn1.32xlarge").price is None
    assert "SageMaker" in instance_type("ml.trn1.32xlarge").unpriced_reason


def test_what_sagemaker_trains_on_is_what_its_api_takes() -> None:
    model = get_session().get_service_model("sagemaker")
    taken = set(model.shape_for("TrainingInstanceType").enum)
    assert {known.name for known in training_types()} == {
        f"ml.{known.name}" for known in instance_types() if f"ml.{known.name}" in taken
    }
    with pytest.raises(SlipwayError, match="unknown instance type"):
        instance_type("ml.dl1.24xlarge")
