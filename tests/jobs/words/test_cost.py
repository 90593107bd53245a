"""What is unknown is never taken for nothing, and an agreement is to an amount of money."""

from __future__ import annotations

import pytest

from slipway.jobs.words.catalogue.instances import Price
from slipway.jobs.words.run import Agreed, Cost, NoAmount, cost, parse_agreed

PRICE = Price(usd_per_hour=12.5, region="us-east-1", date="2026-07-20", source="a list")


def test_an_amount_covers_what_costs_as_much_at_most() -> None:
    ceiling = cost(2, 7200, PRICE)
    assert (ceiling.usd, ceiling.node_hours) == (50.0, 4.0)
    assert Agreed(usd=50.0).covers(ceiling)
    assert not Agreed(usd=49.99).covers(ceiling)
    assert ceiling.words == "up to 50.00 USD (4 node-hours at 12.5 USD on demand, us-east-1, 2026-07-20)"


@pytest.mark.parametrize("ceiling", [cost(2, 3600, None), Cost(usd=None, node_hours=None, price=PRICE)])
def test_no_amount_covers_what_is_not_known(ceiling: Cost) -> None:
    assert not Agreed(usd=1e12).covers(ceiling)
    assert parse_agreed("unknown").covers(ceiling)
    assert "an amount that is not known" in ceiling.words


def test_agreeing_to_the_unknown_is_not_agreeing_to_any_amount() -> None:
    assert not parse_agreed("unknown").covers(cost(2, 3600 * 24, PRICE))


@pytest.mark.parametrize("text", ["0", "-5", "nan", "inf", "", "ten", "1e999", "1\n2", "$5"])
def test_what_is_no_amount_is_refused_with_what_is_allowed(text: str) -> None:
    """BI-172."""
    with pytest.raises(NoAmount, match="give dollars above 0, or 'unknown'"):
        parse_agreed(text)
