"""Each price is of one region, day and source; an unknown price is never taken for zero."""

from __future__ import annotations

import pytest

from slipway.jobs.estimate import CannotEstimate
from slipway.jobs.estimate.prices import (
    Overheads,
    Rate,
    decode_rates,
    encode_rates,
    find_rate,
    known_rates,
    require_rate,
    what_is_paid,
)
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.catalogue.regional import our_fees

RATES = known_rates()
MINE = Rate(
    instance_type="dl1.24xlarge",
    region="us-east-1",
    term="on-demand",
    usd_per_hour=9.0,
    date="2026-08-01",
    source="contract",
)


def test_the_catalogue_s_price_is_the_rate_on_demand() -> None:
    rate = find_rate(RATES, "dl1.24xlarge", "us-east-1")
    assert rate is not None
    assert (rate.usd_per_hour, rate.date) == (13.10904, "2026-07-20")


def test_the_article_s_three_year_rate_is_known_with_where_it_comes_from() -> None:
    rate = require_rate(RATES, instance_type("trn1.32xlarge"), None, "3-year")
    assert rate.usd_per_hour == 7.59
    assert "article" in rate.source or "blog" in rate.source


def test_the_user_s_rate_goes_before_ours() -> None:
    assert find_rate(known_rates([MINE]), "dl1.24xlarge", "us-east-1") == MINE


def test_every_rate_and_every_priced_fee_has_a_day_and_a_source() -> None:
    assert all(rate.date and rate.source for rate in RATES)
    assert all(fee.date for fee in our_fees() if fee.usd is not None)
    assert all(fee.source for fee in our_fees())


def test_a_region_without_a_price_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(CannotEstimate, match=r"no on-demand price of p4d\.24xlarge in sa-east-1") as refused:
        require_rate(RATES, instance_type("p4d.24xlarge"), "sa-east-1", "on-demand")
    assert "on-demand in us-east-1" in refused.value.message
    assert "slipway instance refresh-prices --region sa-east-1" in refused.value.hint


def test_a_region_that_does_not_offer_the_type_is_refused_with_those_that_do() -> None:
    with pytest.raises(
        CannotEstimate, match=r"dl1\.24xlarge is not offered in eu-west-3; it is in us-east-1, us"
    ):
        require_rate(RATES, instance_type("dl1.24xlarge"), "eu-west-3", "on-demand")


def test_what_stands_around_the_nodes_is_paid_by_the_hour() -> None:
    overheads = Overheads(interface_endpoints=12, nat_gateways=1, root_volume_gib=200)
    paid = {item.name: item.usd_per_hour for item in what_is_paid(overheads, "us-east-1", 4)}
    assert paid["interface endpoints (12)"] == pytest.approx(0.12)
    assert paid["NAT gateway (1)"] == pytest.approx(0.045)
    assert paid["root volumes"] == pytest.approx(4 * 200 * 0.08 / 730)


def test_what_nobody_has_written_down_is_unknown_and_named() -> None:
    overheads = Overheads(file_system="efs", file_system_item="efs")
    paid = what_is_paid(overheads, "us-east-1", 1)
    assert [item.usd_per_hour for item in paid] == [None]
    assert "0.3 USD per GiB-month" in paid[0].note


def test_in_a_region_of_which_nothing_is_known_no_fee_is_free() -> None:
    paid = what_is_paid(Overheads(interface_endpoints=3), "eu-west-9", 1)
    assert [item.usd_per_hour for item in paid] == [None]
    assert "no price in eu-west-9 is known" in paid[0].note


def test_a_file_system_of_declared_size_costs_what_it_holds() -> None:
    overheads = Overheads(file_system="fsx-lustre", file_system_gib=1200, file_system_item="fsx-lustre-125")
    (item,) = what_is_paid(overheads, "us-east-1", 1)
    assert item.usd_per_hour == pytest.approx(1200 * 0.145 / 730)


def test_what_is_written_is_read_again() -> None:
    assert decode_rates(encode_rates([MINE]), "mine.csv") == (MINE,)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("usd_per_hour", "0", "usd_per_hour of dl1.24xlarge is 0; it must be more than 0"),
        ("usd_per_hour", "-3", "is -3"),
        ("usd_per_hour", "nan", "it must be more than 0"),
        ("usd_per_hour", "1e9", "at most 100,000"),
        ("usd_per_hour", "cheap", "'cheap', which is no number"),
        ("term", "5-year", "allowed are on-demand, spot, capacity-block, 1-year"),
        ("date", "", "no region or no date"),
    ],
)
def test_a_rate_that_cannot_be_is_refused_with_its_file_and_line(
    column: str, value: str, message: str
) -> None:
    header, row = encode_rates([MINE]).splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=True)) | {column: value}
    with pytest.raises(CannotEstimate, match=r"mine\.csv, line 2") as refused:
        decode_rates(f"{header}\n{','.join(cells.values())}\n", "mine.csv")
    assert message in refused.value.message
