"""`slipway instance list`: what it lists, leaves out, sorts and says of one type."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from slipway.jobs.cli import cli
from slipway.jobs.words.catalogue.instances import instance_types

Capture = pytest.CaptureFixture[str]


def listed(capsys: Capture, *arguments: str) -> list[Any]:
    assert cli.run(["instance", "list", "--json", *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert isinstance(rows, list)
    return rows


def names(capsys: Capture, *arguments: str) -> list[str]:
    return [row["name"] for row in listed(capsys, *arguments)]


def test_every_type_of_the_catalogue_is_listed(capsys: Capture) -> None:
    assert names(capsys) == [known.name for known in instance_types()]


def test_the_table_says_units_and_where_and_when_prices_are_of(capsys: Capture) -> None:
    assert cli.run(["instance", "list"]) == 0
    title, headings, first, *_ = capsys.readouterr().out.splitlines()
    assert title == "instance types, prices on demand"
    assert "memory [GiB]" in headings
    assert "price [USD/h]" in headings
    assert re.split(r"  +", first) == [
        "dl1.24xlarge",
        "8",
        "Habana Gaudi HL-205",
        "96",
        "768",
        "400",
        "4",
        "13.10904",
        "us-east-1",
        "2026-07-20",
    ]


def test_an_unknown_price_reads_as_unknown_and_says_where_each_is_of(capsys: Capture) -> None:
    assert cli.run(["instance", "list", "p5e.48xlarge", "trn2.48xlarge"]) == 0
    _, headings, *rows = capsys.readouterr().out.splitlines()
    assert "price region" in headings
    assert all("unknown" in row for row in rows)


def test_json_carries_all_facts_with_their_sources(capsys: Capture) -> None:
    [row] = [row for row in listed(capsys) if row["name"] == "trn1.32xlarge"]
    assert row["registered_memory_mib"] == 507821
    assert row["accelerator"]["count"] == 16
    assert row["price"]["usd_per_hour"] == 21.5
    assert (row["price"]["region"], row["price"]["date"]) == ("us-east-1", "2026-07-20")
    assert all(row[field] for field in ("source", "peak_note", "link_note"))
    assert row["price"]["source"]


def test_one_type_is_shown_in_full(capsys: Capture) -> None:
    assert cli.run(["instance", "list", "dl1.24xlarge"]) == 0
    shown = capsys.readouterr().out
    assert "memory that ECS registers  unknown" in shown
    assert "price on demand            13.10904 USD/h" in shown
    assert "price date                 2026-07-20" in shown
    assert "source of the facts" in shown


def test_why_there_is_no_price_is_said(capsys: Capture) -> None:
    assert cli.run(["instance", "list", "p5e.48xlarge"]) == 0
    shown = capsys.readouterr().out
    assert "price on demand            unknown" in shown
    assert "why no price is known      not in the us-east-1 on-demand list" in shown


def test_one_type_as_json_is_one_object(capsys: Capture) -> None:
    assert cli.run(["instance", "list", "dl1.24xlarge", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["efa_interfaces"] == 4


def test_filters_join(capsys: Capture) -> None:
    assert names(capsys, "--accelerator", "a100") == ["p4d.24xlarge", "p4de.24xlarge"]
    assert names(capsys, "--accelerator", "a100", "--max-usd-per-hour", "25") == ["p4d.24xlarge"]
    assert names(capsys, "--accelerator", "trainium1", "--efa") == ["trn1.32xlarge", "trn1n.32xlarge"]


def test_each_filter_keeps_exactly_what_it_says(capsys: Capture) -> None:
    assert all(row["efa_interfaces"] > 0 for row in listed(capsys, "--efa"))
    assert all(row["memory_gib"] >= 1152 for row in listed(capsys, "--min-memory-gib", "1152"))
    assert "p4d.24xlarge" in names(capsys, "--min-memory-gib", "1152")
    assert all("us-west-2" in row["regions"] for row in listed(capsys, "--region", "us-west-2"))
    assert "dl1.24xlarge" in names(capsys, "--region", "us-west-2")


def test_what_is_left_out_for_want_of_a_fact_is_named(capsys: Capture) -> None:
    assert cli.run(["instance", "list", "--max-usd-per-hour", "1000", "--json"]) == 0
    printed = capsys.readouterr()
    assert "p5e.48xlarge" not in [row["name"] for row in json.loads(printed.out)]
    assert "left out, because the price is not known: " in printed.err
    assert "p5e.48xlarge" in printed.err


@pytest.mark.parametrize(
    "fact", ["name", "vcpus", "memory-gib", "network-gbps", "efa-interfaces", "usd-per-hour"]
)
def test_sorting_ascends_and_puts_the_unknown_last(fact: str, capsys: Capture) -> None:
    rows = listed(capsys, "--sort", fact)
    key = fact.replace("-", "_")
    facts = [(row["price"] or {}).get(key) if fact == "usd-per-hour" else row[key] for row in rows]
    known = [value for value in facts if value is not None]
    assert facts == sorted(known) + [None] * (len(facts) - len(known))
    assert len(rows) == len(instance_types())


def test_nothing_found_is_said_and_is_no_failure(capsys: Capture) -> None:
    assert cli.run(["instance", "list", "--accelerator", "gaudi", "--max-usd-per-hour", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith(": none\n")


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
    arguments: list[str], error: str, hint: str, capsys: Capture
) -> None:
    assert cli.run(["instance", "list", *arguments]) in (1, 2)
    first, second = capsys.readouterr().err.splitlines()
    assert error in first
    assert hint in second


@pytest.mark.parametrize("region", ["xx-fake-9", "US-EAST-1", " us-east-1", ""])
@pytest.mark.parametrize("more", [[], ["--fees"]])
def test_no_prices_are_of_a_region_that_does_not_exist(region: str, more: list[str], capsys: Capture) -> None:
    """BI-015"""
    assert cli.run(["instance", "prices", "--region", region, *more]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"AWS has no region '{region}'" in told.err


def test_all_lists_every_type_that_aws_names_and_any_of_them_is_shown(capsys: Capture) -> None:
    everything = names(capsys, "--all")
    assert len(everything) > 1_300
    assert names(capsys, "--all", "--accelerator", "A10G") == [
        "g5.48xlarge",
        *(name for name in everything if name.startswith("g5.") and name != "g5.48xlarge"),
    ]
    assert cli.run(["instance", "list", "g5.xlarge"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"network baseline +2\.5 Gb/s", shown)
    assert "DescribeInstanceTypes" in shown
