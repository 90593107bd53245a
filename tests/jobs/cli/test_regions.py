"""Estimates by region and by way to pay: whose price they take, and what they say where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.jobs.estimate.prices import find_rate, known_rates
from tests.jobs.conftest import Slipway


@pytest.fixture(autouse=True)
def nothing_of_my_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("SLIPWAY_PRICES", "SLIPWAY_REFRESHED_PRICES"):
        monkeypatch.delenv(name, raising=False)


def test_a_price_is_that_of_the_region_that_was_named(slipway: Slipway) -> None:
    code, out, _ = slipway(
        "estimate", "bert-large", "--on", "p4d.24xlarge", "--region", "eu-west-1", "--nodes", "1"
    )
    assert code == 0
    assert "prices on-demand in eu-west-1 of 2025-11-18 or later" in out
    assert "23.72" in out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("p4d.24xlarge", "--region", "eu-west-9"), "AWS has no region 'eu-west-9'"),
        (
            ("p4d.24xlarge", "--region", "eu-west-3"),
            "p4d.24xlarge is not offered in eu-west-3; it is in ap-northeast-1",
        ),
        (
            ("p4d.24xlarge", "--region", "sa-east-1"),
            "no on-demand price of p4d.24xlarge in sa-east-1 is known",
        ),
        (
            ("m5.large", "--term", "spot"),
            "no spot price of m5.large is known; known are on-demand in us-east-1",
        ),
        (("dl1.24xlarge", "--term", "capacity-block"), "no capacity-block price of dl1.24xlarge is known"),
        (
            ("p4d.24xlarge", "--term", "spot", "--region", "us-gov-east-1"),
            "no spot price of p4d.24xlarge in us-gov",
        ),
    ],
)
def test_a_region_or_a_term_without_a_price_is_one_line_that_says_what_there_is(
    slipway: Slipway, arguments: tuple[str, ...], error: str
) -> None:
    code, out, err = slipway("estimate", "bert-large", "--on", *arguments)
    assert (code, out) == (2, "")
    assert error in err.splitlines()[0]
    assert "Traceback" not in err


def test_capacity_blocks_cost_what_their_page_said_where_it_did(slipway: Slipway) -> None:
    asked = (
        "estimate",
        "bert-large",
        "--on",
        "p5.48xlarge",
        "--term",
        "capacity-block",
        "--nodes",
        "1",
        "--json",
    )
    (row,) = json.loads(slipway(*asked)[1])
    assert (row["price"]["usd_per_hour"], row["price"]["date"]) == (39.33, "2024-12")
    assert "capacityblocks" in row["price"]["source"]


def test_the_rates_of_years_are_never_mistaken_for_those_on_demand() -> None:
    on_demand = find_rate(known_rates(), "trn1.32xlarge", "us-east-1")
    assert on_demand is not None
    assert on_demand.usd_per_hour == 21.5
