"""`slipway instance list` lists, filters and sorts types, and shows one in full."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from slipway.jobs.words.catalogue.instances import instance_types
from tests.jobs.conftest import Slipway


def listed(slipway: Slipway, *arguments: str) -> list[Any]:
    rows = slipway.json("instance", "list", "--json", *arguments)
    assert isinstance(rows, list)
    return rows


def names(slipway: Slipway, *arguments: str) -> list[str]:
    return [row["name"] for row in listed(slipway, *arguments)]


def test_the_table_says_units_and_where_and_when_prices_are_of(slipway: Slipway) -> None:
    title, headings, first, *_ = slipway.printed("instance", "list").splitlines()
    assert title == "instance types, prices on demand"
    assert "memory [GiB]" in headings
    assert "price [USD/h]" in headings
    facts = "dl1.24xlarge|8|Habana Gaudi HL-205|96|768|400|4|13.10904|us-east-1|2026-07-20"
    assert re.split(r"  +", first) == facts.split("|")


def test_an_unknown_price_reads_as_unknown_and_says_where_each_is_of_and_why(slipway: Slipway) -> None:
    _, headings, *rows = slipway.printed("instance", "list", "p5e.48xlarge", "trn2.48xlarge").splitlines()
    assert "price region" in headings
    assert all("unknown" in row for row in rows)
    shown = slipway.printed("instance", "list", "p5e.48xlarge")
    assert "price on demand            unknown" in shown
    assert "why no price is known      not in the us-east-1 on-demand list" in shown


def test_json_carries_all_facts_with_their_sources(slipway: Slipway) -> None:
    row = slipway.json("instance", "list", "trn1.32xlarge", "--json")
    assert row in listed(slipway)
    assert (row["registered_memory_mib"], row["accelerator"]["count"]) == (507821, 16)
    assert row["price"]["usd_per_hour"] == 21.5
    assert (row["price"]["region"], row["price"]["date"]) == ("us-east-1", "2026-07-20")
    assert all(row[field] for field in ("source", "peak_note", "link_note"))
    assert row["price"]["source"]


def test_one_type_is_shown_in_full(slipway: Slipway) -> None:
    shown = slipway.printed("instance", "list", "dl1.24xlarge")
    assert "memory that ECS registers  unknown" in shown
    assert "price on demand            13.10904 USD/h" in shown
    assert "price date                 2026-07-20" in shown
    assert "source of the facts" in shown


def test_filters_join_and_each_keeps_exactly_what_it_says(slipway: Slipway) -> None:
    assert names(slipway, "--accelerator", "a100") == ["p4d.24xlarge", "p4de.24xlarge"]
    assert names(slipway, "--accelerator", "a100", "--max-usd-per-hour", "25") == ["p4d.24xlarge"]
    assert names(slipway, "--accelerator", "trainium1", "--efa") == ["trn1.32xlarge", "trn1n.32xlarge"]
    assert all(row["efa_interfaces"] > 0 for row in listed(slipway, "--efa"))
    large = {row["name"]: row["memory_gib"] for row in listed(slipway, "--min-memory-gib", "1152")}
    assert min(large.values()) >= 1152
    assert "p4d.24xlarge" in large
    there = {row["name"]: row["regions"] for row in listed(slipway, "--region", "us-west-2")}
    assert all("us-west-2" in regions for regions in there.values())
    assert "dl1.24xlarge" in there
    none = slipway("instance", "list", "--accelerator", "gaudi", "--max-usd-per-hour", "1")
    assert none[:2] == (0, "")
    assert none[2].endswith(": none\n")
    code, out, err = slipway("instance", "list", "--max-usd-per-hour", "1000", "--json")
    assert (code, "p5e.48xlarge" in {row["name"] for row in json.loads(out)}) == (0, False)
    assert "p5e.48xlarge" in err.partition("left out, because the price is not known: ")[2]


@pytest.mark.parametrize(
    "fact", ["name", "vcpus", "memory-gib", "network-gbps", "efa-interfaces", "usd-per-hour"]
)
def test_sorting_ascends_and_puts_the_unknown_last_and_every_type_is_there(
    fact: str, slipway: Slipway
) -> None:
    rows = listed(slipway, "--sort", fact)
    key = fact.replace("-", "_")
    facts = [(row["price"] or {}).get(key) if fact == "usd-per-hour" else row[key] for row in rows]
    known = [value for value in facts if value is not None]
    assert facts == sorted(known) + [None] * (len(facts) - len(known))
    assert {row["name"] for row in rows} == {known.name for known in instance_types()}


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["dl1.24xlrge"], "unknown instance type 'dl1.24xlrge'", "did you mean dl1.24xlarge"),
        (["--region", "us-east1"], "region 'us-east1'", "us-east-1"),
        (["--accelerator", "tpu"], "contains 'tpu'", "Habana Gaudi HL-205"),
        (["--max-usd-per-hour", "nan"], "nan is not a finite number", "--help"),
        (["--max-usd-per-hour", "0"], "0", "--help"),
        (["--min-memory-gib", "-1"], "-1", "--help"),
    ],
)
def test_a_wrong_filter_is_refused_with_what_is_allowed(
    arguments: list[str], error: str, hint: str, slipway: Slipway
) -> None:
    code, _, err = slipway("instance", "list", *arguments)
    first, second = err.splitlines()
    assert code in (1, 2)
    assert error in first
    assert hint in second


@pytest.mark.parametrize("region", ["xx-fake-9", "US-EAST-1", " us-east-1", ""])
@pytest.mark.parametrize("more", [[], ["--fees"]])
def test_no_prices_are_of_a_region_that_does_not_exist(
    region: str, more: list[str], slipway: Slipway
) -> None:
    """BI-015"""
    said = slipway.refused("instance", "prices", "--region", region, *more, code=2)
    assert f"AWS has no region '{region}'" in said


def test_all_lists_every_type_that_aws_names_and_any_of_them_is_shown(slipway: Slipway) -> None:
    everything = names(slipway, "--all")
    assert len(everything) > 1_300
    assert names(slipway, "--all", "--accelerator", "A10G") == [
        "g5.48xlarge",
        *(name for name in everything if name.startswith("g5.") and name != "g5.48xlarge"),
    ]
    shown = slipway.printed("instance", "list", "g5.xlarge")
    assert re.search(r"network baseline +2\.5 Gb/s", shown)
    assert "DescribeInstanceTypes" in shown
