"""Amounts in words: what is not nothing is not shown as 0.00."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from slipway.jobs import cli
from slipway.jobs.output import Column
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.run import cost
from slipway.jobs.words.text import money, words


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


def test_a_job_of_some_seconds_costs_something() -> None:
    price = instance_type("c6i.large").price
    assert price, "it is in the catalogue"
    found = cost(1, 6, price)
    assert found.usd == pytest.approx(price.usd_per_hour * 6 / 3600, abs=1e-6)
    assert found.words.startswith("up to 0.0001 USD (")
    assert cost(1, 0, price).words.startswith("up to 0 USD (")
    assert cost(1, None, price).usd is None


AMOUNTS = [
    pytest.param(column, id=f"{module.name} {name} {column.name}")
    for module in pkgutil.iter_modules(cli.__path__)
    for name, columns in vars(import_module(f"{cli.__name__}.{module.name}")).items()
    if name.isupper() and isinstance(columns, tuple)
    for column in columns
    if isinstance(column, Column)
    and column.heading.partition("[")[2].startswith("USD")
    and not (column.format is words and "price" in column.title)  # as it is published
]


@pytest.mark.parametrize("column", AMOUNTS)
def test_every_column_of_dollars_shows_what_is_not_nothing(column: Column) -> None:
    if column.name.startswith("ranges."):
        assert column.format((0.003, 1234.5)) == "0.003 to 1,234.50"
    else:
        assert column.format(0.003) == "0.003"
        assert column.format(1234.5) == "1,234.50"
