"""Prices outside us-east-1 and of Spot: rows of regions.csv."""

from __future__ import annotations

from slipway.jobs.words.catalogue.instances import find_instance_type, instance_type
from slipway.jobs.words.catalogue.regional import price_in, regional_prices
from slipway.jobs.words.names import REGIONS


def test_every_row_is_of_a_type_and_a_region_that_aws_names_and_says_a_price() -> None:
    seen = set()
    for row in regional_prices():
        assert (row.instance_type, row.region) not in seen
        seen.add((row.instance_type, row.region))
        assert find_instance_type(row.instance_type) is not None, row.instance_type
        assert row.region in REGIONS
        assert row.usd_per_hour or row.spot_usd_per_hour or row.instance_type.startswith("p5")


def test_spot_costs_more_than_nothing_at_most_what_demand_does_and_has_its_zone() -> None:
    for row in regional_prices():
        assert (row.spot_usd_per_hour is None) == (row.spot_zone == "")
        if row.spot_usd_per_hour is not None and row.usd_per_hour is not None:
            assert 0 < row.spot_usd_per_hour <= row.usd_per_hour + 0.001


def test_rows_of_us_east_1_agree_with_the_catalogue() -> None:
    """One page may be older than the other: AWS has not changed one of these prices between them."""
    for row in regional_prices():
        known = find_instance_type(row.instance_type)
        if row.region == "us-east-1" and known and known.price and row.usd_per_hour:
            assert known.price.region == "us-east-1"
            assert abs(row.usd_per_hour - known.price.usd_per_hour) < 0.001


def test_a_price_is_of_its_region_or_unknown() -> None:
    p4d = instance_type("p4d.24xlarge")
    here, there = price_in(p4d, "us-east-1"), price_in(p4d, "eu-west-1")
    assert here == p4d.price
    assert there is not None
    assert (there.usd_per_hour, there.region) == (23.71569, "eu-west-1")
    assert price_in(p4d, "sa-east-1") is None
