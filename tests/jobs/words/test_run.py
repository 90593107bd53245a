"""What a job costs, in the words of a run."""

from __future__ import annotations

from dataclasses import replace

from slipway.jobs.words.run import cost, price_of
from tests.jobs.words.test_targets import TARGET

IN_TOKYO = replace(TARGET, region="ap-northeast-1", zone="ap-northeast-1a", instance_type="p4d.24xlarge")


def test_a_job_costs_what_its_region_asks_and_names_it() -> None:
    price = price_of(IN_TOKYO)
    assert price is not None
    assert (price.usd_per_hour, price.region) == (30.09784, "ap-northeast-1")
    assert "30.09784 USD on demand, ap-northeast-1, " in cost(2, 3600.0, price).words


def test_where_no_price_of_the_region_is_known_the_price_says_whose_it_is() -> None:
    elsewhere = price_of(replace(IN_TOKYO, region="xx-north-1", zone="xx-north-1a"))
    assert elsewhere is not None
    assert elsewhere.region == "us-east-1"
    assert price_of(replace(IN_TOKYO, instance_type="x1.enormous")) is None
