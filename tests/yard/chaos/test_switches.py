"""Faults are switched on by name, and one seed gives the same ones again."""

from __future__ import annotations

import pytest

from slipway.yard.chaos import conditions
from slipway.yard.chaos.switches import SWITCHES, BadFault, checked_seed, choose, decode


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("packet-los", "there is no fault 'packet-los'; did you mean packet-loss? there are consistency, "),
        ("", "there is no fault ''; there are consistency"),
        (
            "packet-loss=lots",
            "fault 'packet-loss' is 'lots', which is no number; allowed are 0 (off) to 90 %",
        ),
        ("packet-loss=91", "fault 'packet-loss' is 91; allowed are 0 (off) to 90 %"),
        ("packet-loss=-1", "allowed are 0 (off) to 90 %"),
        ("packet-loss=nan", "fault 'packet-loss' is nan; allowed are 0 (off) to 90 %"),
        ("launch-delay=inf", "fault 'launch-delay' is inf; allowed are 0 (off) to 600 s"),
        ("packet-loss=", "fault 'packet-loss' is '', which is no number"),
    ],
)
def test_a_fault_that_cannot_be_switched_on_is_refused_in_one_line(word: str, said: str) -> None:
    with pytest.raises(BadFault) as refused:
        decode([word])
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("seed", ["seven", "-1", "1.5", "", "٣", "9" * 25, str(2**63)])
def test_a_seed_that_is_no_whole_number_is_refused_in_one_line(seed: str) -> None:
    with pytest.raises(BadFault, match="allowed are whole numbers from 0 to") as refused:
        checked_seed(seed)
    assert len(str(refused.value).splitlines()) == 1


def test_chaos_switches_everything_on_and_a_single_fault_overrides_it() -> None:
    chosen = choose("7", ["packet-loss=0", "launch-delay=9"])
    assert chosen
    assert chosen.seed == 7
    assert set(chosen.values) == set(SWITCHES)
    assert (chosen.values["packet-loss"], chosen.values["launch-delay"]) == (0, 9)
    assert all(0 < switch.in_chaos <= switch.most for switch in SWITCHES.values())


def test_without_a_request_there_is_no_fault() -> None:
    assert choose(None, []) is None
    assert all(row["value"] == 0 for row in conditions.described()["switches"])
    assert not conditions.strikes("server-errors", "batch:SubmitJob")


def drawn(seed: int, kind: str) -> list[bool]:
    conditions.switch({"server-errors": 30}, seed=seed)
    return [conditions.strikes("server-errors", kind) for _ in range(200)]


def test_one_seed_strikes_the_same_calls_again_and_another_one_others() -> None:
    first = drawn(7, "batch:SubmitJob")
    assert drawn(7, "batch:SubmitJob") == first
    assert drawn(8, "batch:SubmitJob") != first
    assert drawn(7, "batch:ListJobs") != first
    assert 30 < sum(first) < 90


def test_what_other_calls_do_meanwhile_changes_no_draw() -> None:
    alone = drawn(7, "batch:SubmitJob")
    conditions.switch({"server-errors": 30}, seed=7)
    mixed = []
    for _ in range(200):
        conditions.strikes("server-errors", "ec2:DescribeVpcs")
        mixed.append(conditions.strikes("server-errors", "batch:SubmitJob"))
    assert mixed == alone


def test_every_strike_is_counted_for_the_one_who_asks() -> None:
    struck = sum(drawn(7, "batch:SubmitJob"))
    (row,) = (row for row in conditions.described()["switches"] if row["name"] == "server-errors")
    assert (row["value"], row["struck"]) == (30, struck)
