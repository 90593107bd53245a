"""A job's bill equals a calculation by hand, and names what it leaves out."""

from __future__ import annotations

import pytest

from tests.jobs.cli.conftest import rows_of
from tests.jobs.conftest import Slipway

GIB_MONTHS_HOURS = 730


def billed(slipway: Slipway, *arguments: str) -> dict[str, float]:
    return {line["item"]: line["usd"] for line in slipway.json("estimate", *arguments, "--bill", "--json")}


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
        "interface endpoints (11)": 11 * 0.01 * whole,
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
    (row,) = slipway.json("estimate", *asked_for, "--json")
    lines = billed(slipway, *asked_for)
    node_hour, hours = 4 * 21.957642, row["hours"]
    lost = 3.8 / 1000 / 24 * 4 * hours * (15 + 10) / 60
    assert round(lines["nodes, training"], 2) == round(row["usd"], 2)
    assert lines["in all"] == pytest.approx(node_hour * (hours + 10 / 60 + lost), abs=0.005)


def test_more_failures_cost_as_much_more_and_sagemaker_s_machines_nothing_before_they_stand(
    slipway: Slipway,
) -> None:
    asked = ("gpt-neox-20b", "--on", "trn1.32xlarge", "--nodes", "4", "--assume")
    none, one, often = (
        billed(slipway, *asked, f"failures={failures}")["nodes, repeating what failures cost"]
        for failures in ("0", "3.8", "38")
    )
    assert (none, often) == pytest.approx((0, 10 * one))
    lines = billed(slipway, "bert-large", "--on", "ml.p4d.24xlarge", "--nodes", "1")
    assert lines["nodes, starting"] == 0


def test_what_is_not_counted_stays_named(slipway: Slipway) -> None:
    _, _, err = slipway("estimate", "bert-large", "--on", "dl1", "--nodes", "1", "--bill")
    for each in ("data through endpoints and NAT", "the time in a queue", "slipway estimate --idle"):
        assert each in err


REFUSED = """
bert-large --on dl1 --assume failures=1 | --assume is for a bill; add --bill
bert-large --on dl1 --bill --assume failure=1 | assumes no such thing
bert-large --on dl1 --bill --assume failures | failures is ''
bert-large --on dl1 --bill --assume failures=nan | failures=nan cannot be
bert-large --on dl1 --bill --assume save_minutes=-1 | save_minutes=-1 cannot be
bert-base --on dl1 --bill | a job without a known end has no bill
bert-large --on p5e.48xlarge --bill | no price of p5e.48xlarge is known
--check --bill | --check takes no --bill
bert-large --on p4d.24xlarge --bill --assume interruptions=-1 --term spot | interruptions=-1 cannot be
bert-large --on p4d.24xlarge --bill --assume interruptions=nan --term spot | interruptions
bert-large --on p4d.24xlarge --bill --assume interruptions=0.1 | nobody interrupts on-demand nodes so
bert-large --on p4d.24xlarge --bill --nodes 2 --assume interruptions=2 --term spot | more work than they do
bert-large --on p4d.24xlarge --bill --assume savings=100 | --assume savings=100 cannot be
bert-large --on p4d.24xlarge --bill --assume savings=-5 | --assume savings=-5 cannot be
bert-large --on p4d.24xlarge --bill --assume savings=30 --term spot | off on-demand prices, and these are spot
"""


@pytest.mark.parametrize(("words", "said"), rows_of(REFUSED))
def test_a_bill_or_an_assumption_that_cannot_be_is_refused(slipway: Slipway, words: str, said: str) -> None:
    assert said in slipway.refused("estimate", *words.split(), code=2).splitlines()[0]


def test_spot_repeats_what_interruptions_take_and_repeated_work_is_interrupted_too(slipway: Slipway) -> None:
    asked = ("bert-large", "--on", "p4d.24xlarge", "--nodes", "4", "--term", "spot", "--region", "us-west-2")
    (row,) = slipway.json("estimate", *asked, "--json")
    lines = billed(slipway, *asked, "--assume", "interruptions=0.02", "--assume", "failures=0")
    share = 0.02 * 4 * (15 + 10) / 60
    hours = row["hours"]
    assert lines["nodes, training"] == pytest.approx(4 * 7.9992 * hours)
    assert lines["nodes, repeating what Spot takes"] == pytest.approx(
        4 * 7.9992 * hours * share / (1 - share)
    )


def test_how_often_spot_takes_a_node_is_unknown_until_somebody_says_it(slipway: Slipway) -> None:
    asked = ("bert-large", "--on", "p4d.24xlarge", "--nodes", "4", "--term", "spot")
    out = slipway.printed("estimate", *asked, "--bill")
    assert "not known how often Spot takes a node: --assume interruptions=N" in out
    assert "without nodes, repeating what Spot takes, which is not known" in out


def test_savings_take_percent_off_the_nodes_and_say_that_they_are_assumed(slipway: Slipway) -> None:
    asked = ("bert-large", "--on", "p4d.24xlarge", "--nodes", "2")
    full, less = billed(slipway, *asked), billed(slipway, *asked, "--assume", "savings=30%")
    assert less["nodes, training"] == pytest.approx(0.7 * full["nodes, training"])
    out = slipway("estimate", *asked, "--bill", "--assume", "savings=30")[1]
    assert "21.9576 less 30 % of savings, which is assumed" in out
