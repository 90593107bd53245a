"""What a job costs, in the words of a run."""

from __future__ import annotations

from dataclasses import replace

from slipway.jobs.words.run import cost, on_demand_price_of, price_of
from tests.jobs.words.test_targets import SLURM_TARGET, TARGET

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


def test_a_cluster_that_buys_on_spot_or_a_block_costs_about_what_that_does() -> None:
    on_spot = replace(SLURM_TARGET, instance_type="p4d.24xlarge", region="us-east-1", is_spot=True)
    in_block = replace(IN_TOKYO, region="us-east-2", capacity_block="cr-0123456789abcdef0")
    for target, term, words in (
        (on_spot, "spot", "on Spot"),
        (in_block, "capacity-block", "in a capacity block"),
    ):
        price, listed = price_of(target), on_demand_price_of(target)
        assert price is not None
        assert listed is not None
        assert (price.term, price.region) == (term, target.region)
        assert price.usd_per_hour < listed.usd_per_hour
        said = cost(2, 3600.0, price).words
        assert said.startswith("about ")
        assert f"{words}, {target.region}, {price.date}" in said


def test_where_nobody_wrote_down_what_spot_costs_the_price_is_that_on_demand() -> None:
    unknown = replace(SLURM_TARGET, instance_type="p4d.24xlarge", region="xx-north-1", is_spot=True)
    price = price_of(unknown)
    assert price is not None
    assert price.term == "on-demand"
    assert cost(2, 3600.0, price).words.startswith("up to ")
