"""The idle cost of a cluster counts every billed resource of the real templates, and none twice."""

from __future__ import annotations

from functools import lru_cache

import pytest

from slipway.jobs.cloud.templates import Templates, declared_templates
from slipway.jobs.clusters.bill import BILLED, StandingItem, is_shared, standing_items
from slipway.jobs.words.catalogue.regional import find_fee
from slipway.jobs.words.errors import SlipwayError

REGION = "us-east-1"
# Billed only by use, or not at all.
FREE_WHILE_NOTHING_RUNS = (
    "AWS::AutoScaling::",
    "AWS::Batch::",
    "AWS::Budgets::Budget",  # the first two in an account are free; each with actions costs
    "AWS::CodeBuild::Project",
    "AWS::EC2::FlowLog",  # what it writes is log storage
    "AWS::EC2::InternetGateway",
    "AWS::EC2::LaunchTemplate",
    "AWS::EC2::PlacementGroup",
    "AWS::EC2::Route",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::EFS::MountTarget",
    "AWS::Events::Rule",
    "AWS::IAM::",
    "AWS::ImageBuilder::",
    "AWS::KMS::Alias",
    "AWS::Lambda::",
    "AWS::Logs::Delivery",  # what it delivers is log storage
    "AWS::Logs::MetricFilter",
    "AWS::PCS::Queue",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::",
    "AWS::SQS::",
    "AWS::SSM::",
    "AWS::SecretsManager::ResourcePolicy",
)


@lru_cache(maxsize=4)
def templates(cluster: str) -> Templates:
    return declared_templates(cluster)


def items(cluster: str) -> tuple[StandingItem, ...]:
    return standing_items(templates(cluster), REGION)


@pytest.mark.cdk
@pytest.mark.parametrize("cluster", ["dl1", "c6i", "trn1", "sagemaker"])
def test_every_resource_type_that_is_deployed_has_a_price_or_costs_nothing(cluster: str) -> None:
    types = {
        resource["Type"] for one in templates(cluster).values() for resource in one["Resources"].values()
    }
    assert {each for each in types - BILLED.keys() if not each.startswith(FREE_WHILE_NOTHING_RUNS)} == set()


@pytest.mark.cdk
def test_a_gateway_endpoint_costs_nothing_and_an_interface_endpoint_an_hour_each() -> None:
    (endpoints,) = [item for item in items("dl1") if item.item == "interface endpoints"]
    fee = find_fee("interface-endpoint", REGION)
    assert fee is not None
    assert fee.usd is not None
    assert endpoints.usd_per_month == pytest.approx(endpoints.count * fee.usd * 730)
    of_network = [resource["Type"] for resource in templates("dl1")["dl1-network"]["Resources"].values()]
    assert of_network.count("AWS::EC2::VPCEndpoint") == endpoints.count + 1  # S3's gateway


@pytest.mark.cdk
def test_the_bakery_is_told_apart_since_it_serves_others_too() -> None:
    assert {item.stack for item in items("c6i") if is_shared(item.stack)} == {
        "slipway-bakery-cpu-mpi",
        "slipway-bakery-network-us-east-1",
    }


@pytest.mark.cdk
def test_what_is_stored_has_a_price_and_no_made_up_amount() -> None:
    for item in items("dl1"):
        is_stored = "as much as is stored" in item.note
        assert is_stored == (item.usd_per_month is None), item
        assert not is_stored or "USD per GiB-month, 20" in item.note


def test_a_file_system_of_a_fixed_size_is_paid_for_in_full() -> None:
    lustre = {
        "Type": "AWS::FSx::FileSystem",
        "Properties": {"StorageCapacity": 1200, "LustreConfiguration": {"PerUnitStorageThroughput": 125}},
    }
    (item,) = standing_items({"dl1-storage": {"Resources": {"Files": lustre}}}, REGION)
    assert item.usd_per_month == pytest.approx(1200 * 0.145)


def test_no_price_is_taken_from_another_region() -> None:
    nat = {"dl1-network": {"Resources": {"Nat": {"Type": "AWS::EC2::NatGateway"}}}}
    (item,) = standing_items(nat, "eu-west-1")
    assert (item.usd_per_month, item.note) == (None, "no price in eu-west-1 is known")


def test_a_cluster_that_cannot_be_synthesized_says_how_to_see_why() -> None:
    with pytest.raises(SlipwayError) as refusal:
        declared_templates("dl9")
    assert "slipway.infra.templates dl9" in refusal.value.hint
