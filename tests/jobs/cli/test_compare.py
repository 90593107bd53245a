"""compare orders clusters by the same work, and calls no job cheap for doing less."""

from __future__ import annotations

import json

from tests.jobs.conftest import Slipway


def test_compare_puts_the_cheapest_first_and_marks_what_none_beats(slipway: Slipway) -> None:
    settings = ("--set", "size=large", "--set", "global_batch=65536")  # the same work on every size
    code, out, err = slipway("compare", "bert_pretrain", *settings, "--json")
    assert code == 0
    assert "different numbers of sequences" not in err
    rows = json.loads(out)
    costs = [row["usd"] for row in rows if row["usd"] is not None]
    assert costs == sorted(costs)
    assert [row["usd"] for row in rows[len(costs) :]] == [None] * (len(rows) - len(costs))
    assert rows[0]["best"] in ("*", "not told apart")
    fastest = min((row for row in rows if row["usd"] is not None), key=lambda row: (row["hours"], row["usd"]))
    assert fastest["best"] in ("*", "not told apart")
    assert {row["best"] for row in rows if row["usd"] is None} == {""}
    for row in rows:
        assert row["front"] == (row["best"] == "*")
    assert {row["place"] for row in rows} >= {"dl1", "p4d.24xlarge", "c7i.48xlarge"}
    assert max(row["nodes"] for row in rows if row["place"] == "dl1") == 16  # as many nodes as are declared
    assert "trn1.32xlarge" not in {row["place"] for row in rows}  # the recipe has no Neuron
    assert all(row["memory_gib"] <= row["usable_gib"] for row in rows)


def test_a_size_that_no_cluster_has_is_refused_as_such(slipway: Slipway) -> None:
    err = slipway.refused("compare", "bert-large", "--nodes", "4,0", code=2)
    assert "0 nodes cannot be; allowed are 1 to 10,000" in err


def test_rows_that_train_different_numbers_of_sequences_are_compared_by_one(slipway: Slipway) -> None:
    """With equal steps of a batch that grows with the nodes, the cheapest job does the least work."""
    code, out, err = slipway(
        "compare", "bert_pretrain", "--set", "size=large", "--set", "steps=7038", "--json"
    )
    assert code == 0
    assert "rows train different numbers of sequences" in err
    rows = [row for row in json.loads(out) if row["usd"] is not None]
    of_one = [row["usd_per_hour"] / row["sequences_per_second"] for row in rows]
    assert of_one == sorted(of_one)
    assert len({row["sequences"] for row in rows}) > 1


def test_compare_by_time_puts_the_fastest_first_and_says_when_it_shows_less(slipway: Slipway) -> None:
    code, out, err = slipway("compare", "gpt-neox-20b", "--by", "time", "--rows", "3")
    assert code == 0
    assert len(out.splitlines()) == 2 + 3
    assert "more; --rows" in err
    rows = slipway.json("compare", "gpt-neox-20b", "--by", "time", "--json")
    times = [row["hours"] for row in rows if row["usd"] is not None]
    assert times == sorted(times)


def test_a_job_without_an_end_is_compared_by_its_rate(slipway: Slipway) -> None:
    rows = slipway.json("compare", "distilbert", "--json")
    assert {row["hours"] for row in rows} == {None}
    tokens = [row["tokens_per_dollar"] for row in rows if row["tokens_per_dollar"]]
    assert tokens == sorted(tokens, reverse=True)


def test_all_types_compares_what_the_usual_list_leaves_out(slipway: Slipway) -> None:
    arguments = ("compare", "bert-large", "--nodes", "1", "--json")
    usual, every = (
        {row["instance_type"] for row in slipway.json(*arguments, *more)} for more in ((), ("--all-types",))
    )
    assert usual < every
    assert {"g5.xlarge", "c6i.8xlarge", "m7i.8xlarge"} <= every - usual
    assert "inf2.48xlarge" not in every
    err = slipway.told("compare", "bert-large", "--all-types", "--on", "dl1", code=2)
    assert "--on names types and --all-types takes all" in err
