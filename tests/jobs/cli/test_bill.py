"""The bill of a job is what a person who multiplies by hand gets, and what it leaves out is named."""

from __future__ import annotations

import json

import pytest

from tests.jobs.conftest import Slipway

GIB_MONTHS_HOURS = 730


def billed(slipway: Slipway, *arguments: str) -> dict[str, float]:
    code, out, err = slipway("estimate", *arguments, "--bill", "--json")
    assert code == 0, err
    return {line["item"]: line["usd"] for line in json.loads(out)}


def test_a_bill_of_dl1_is_the_one_made_by_hand(slipway: Slipway) -> None:
    """BERT-Large on eight nodes at the measured rate; prices as of fees.csv and instances.csv."""
    asked = ("bert-large", "--on", "dl1", "--nodes", "8")
    lines = billed(
        slipway,
        *asked,
        *("--assume", "start_minutes=12", "--assume", "failures=4", "--assume", "save_minutes=20"),
        *("--assume", "stored_gib=1000"),
    )
    hours = (7038 * 65_536 / 9977.54 + 10) / 3600
    node_hour = 8 * 13.10904
    lost = 4 / 1000 / 24 * 8 * hours * (10 + 12) / 60
    whole = hours + 12 / 60 + lost
    by_hand = {
        "nodes, training": node_hour * hours,
        "nodes, starting": node_hour * 12 / 60,
        "nodes, repeating what failures cost": node_hour * lost,
        "interface endpoints (12)": 12 * 0.01 * whole,
        "root volumes": 8 * 200 * 0.08 / GIB_MONTHS_HOURS * whole,
        "efs": 1000 * 0.3 / GIB_MONTHS_HOURS * whole,
    }
    by_hand["in all"] = sum(by_hand.values())
    assert {item: round(usd, 2) for item, usd in lines.items()} == {
        item: round(usd, 2) for item, usd in by_hand.items()
    }


def test_a_bill_of_gpus_is_the_estimate_and_what_comes_on_top(slipway: Slipway) -> None:
    asked = ("gpt-neox-20b", "--on", "p4d.24xlarge", "--nodes", "4", "--set", "sharding=fsdp")
    asked_for = (*asked, "--set", "checkpointing=full")
    (row,) = json.loads(slipway("estimate", *asked_for, "--json")[1])
    lines = billed(slipway, *asked_for)
    node_hour, hours = 4 * 21.957642, row["hours"]
    lost = 3.8 / 1000 / 24 * 4 * hours * (15 + 10) / 60
    assert round(lines["nodes, training"], 2) == round(row["usd"], 2)
    assert lines["in all"] == pytest.approx(node_hour * (hours + 10 / 60 + lost), abs=0.005)


def test_a_longer_run_on_more_nodes_expects_more_failures(slipway: Slipway) -> None:
    failing = "nodes, repeating what failures cost"
    one = billed(slipway, "gpt-neox-20b", "--on", "trn1.32xlarge", "--nodes", "4")
    none = billed(slipway, "gpt-neox-20b", "--on", "trn1.32xlarge", "--nodes", "4", "--assume", "failures=0")
    often = billed(
        slipway, "gpt-neox-20b", "--on", "trn1.32xlarge", "--nodes", "4", "--assume", "failures=38"
    )
    assert none[failing] == 0
    assert often[failing] == pytest.approx(10 * one[failing])


def test_sagemaker_s_machines_cost_nothing_before_they_stand(slipway: Slipway) -> None:
    lines = billed(slipway, "bert-large", "--on", "ml.p4d.24xlarge", "--nodes", "1")
    assert lines["nodes, starting"] == 0


def test_what_is_not_counted_stays_named(slipway: Slipway) -> None:
    _, _, err = slipway("estimate", "bert-large", "--on", "dl1", "--nodes", "1", "--bill")
    for each in ("data through endpoints and NAT", "the time in a queue", "slipway estimate --idle"):
        assert each in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bert-large", "--on", "dl1", "--assume", "failures=1"), "--assume is for a bill; add --bill"),
        (("bert-large", "--on", "dl1", "--bill", "--assume", "failure=1"), "assumes no such thing"),
        (("bert-large", "--on", "dl1", "--bill", "--assume", "failures"), "failures is ''"),
        (("bert-large", "--on", "dl1", "--bill", "--assume", "failures=nan"), "failures=nan cannot be"),
        (("bert-large", "--on", "dl1", "--bill", "--assume", "save_minutes=-1"), "save_minutes=-1 cannot be"),
        (("bert-base", "--on", "dl1", "--bill"), "a job without a known end has no bill"),
        (("bert-large", "--on", "p5e.48xlarge", "--bill"), "no price of p5e.48xlarge is known"),
        (("--check", "--bill"), "--check takes no --bill"),
    ],
)
def test_a_bill_that_cannot_be_is_refused(slipway: Slipway, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = slipway("estimate", *arguments)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[0]


def test_spot_repeats_what_interruptions_take_and_repeated_work_is_interrupted_too(slipway: Slipway) -> None:
    asked = ("bert-large", "--on", "p4d.24xlarge", "--nodes", "4", "--term", "spot", "--region", "us-west-2")
    (row,) = json.loads(slipway("estimate", *asked, "--json")[1])
    lines = billed(slipway, *asked, "--assume", "interruptions=0.02", "--assume", "failures=0")
    share = 0.02 * 4 * (15 + 10) / 60
    hours = row["hours"]
    assert lines["nodes, training"] == pytest.approx(4 * 7.9992 * hours)
    assert lines["nodes, repeating what Spot takes"] == pytest.approx(
        4 * 7.9992 * hours * share / (1 - share)
    )


def test_how_often_spot_takes_a_node_is_unknown_until_somebody_says_it(slipway: Slipway) -> None:
    asked = ("bert-large", "--on", "p4d.24xlarge", "--nodes", "4", "--term", "spot")
    code, out, _ = slipway("estimate", *asked, "--bill")
    assert code == 0
    assert "not known how often Spot takes a node: --assume interruptions=N" in out
    assert "without nodes, repeating what Spot takes, which is not known" in out


def test_savings_take_percent_off_the_nodes_and_say_that_they_are_assumed(slipway: Slipway) -> None:
    asked = ("bert-large", "--on", "p4d.24xlarge", "--nodes", "2")
    full, less = billed(slipway, *asked), billed(slipway, *asked, "--assume", "savings=30%")
    assert less["nodes, training"] == pytest.approx(0.7 * full["nodes, training"])
    out = slipway("estimate", *asked, "--bill", "--assume", "savings=30")[1]
    assert "21.9576 less 30 % of savings, which is assumed" in out


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (("--assume", "interruptions=-1", "--term", "spot"), "--assume interruptions=-1 cannot be"),
        (("--assume", "interruptions=nan", "--term", "spot"), "interruptions"),
        (("--assume", "interruptions=0.1"), "nobody interrupts on-demand nodes so"),
        (("--assume", "interruptions=2", "--term", "spot"), "repeat more work than they do"),
        (("--assume", "savings=100"), "--assume savings=100 cannot be"),
        (("--assume", "savings=-5"), "--assume savings=-5 cannot be"),
        (
            ("--assume", "savings=30", "--term", "spot"),
            "it is taken off on-demand prices, and these are spot",
        ),
    ],
)
def test_an_assumption_that_cannot_be_is_one_line(
    slipway: Slipway, more: tuple[str, ...], error: str
) -> None:
    code, out, err = slipway(
        "estimate", "bert-large", "--on", "p4d.24xlarge", "--nodes", "2", "--bill", *more
    )
    assert (code, out) == (2, "")
    assert error in err.splitlines()[0]
    assert "Traceback" not in err
