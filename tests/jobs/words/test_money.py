"""Amounts in words: what is not nothing is not shown as 0.00."""

from __future__ import annotations

import pytest

from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.run import cost
from slipway.jobs.words.text import money


@pytest.mark.parametrize(
    ("usd", "words"),
    [
        (0, "0"),
        (0.01, "0.01"),
        (0.0099, "0.0099"),
        (0.0034, "0.0034"),
        (0.003, "0.003"),
        (0.00001, "less than 0.0001"),
        (1.5, "1.50"),
        (1234.5, "1,234.50"),
    ],
)
def test_an_amount_is_shown_to_the_cent_and_below_it_to_four_digits(usd: float, words: str) -> None:
    assert money(usd) == words


def test_a_job_of_some_seconds_costs_something_in_words_and_cents_in_json() -> None:
    price = instance_type("c6i.large").price
    assert price, "it is in the catalogue"
    found = cost(1, 6, price)
    assert found.usd == 0
    assert found.amount == pytest.approx(price.usd_per_hour * 6 / 3600, rel=0.05)
    assert found.words.startswith("up to 0.0001 USD (")
    assert cost(1, 0, price).words.startswith("up to 0 USD (")
    assert cost(1, None, price).amount is None
