"""An estimate names its run, region and time, and what does not work; or one line says why there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.containers.recipes.bert_pretrain.config import decode_arguments, plan_batch
from slipway.jobs.cli.estimate_views import ARTICLE_RUNS
from slipway.jobs.estimate.prices import find_rate, known_rates
from tests.jobs.conftest import Slipway


def test_the_run_is_named_with_its_length_batches_layout_and_epochs(slipway: Slipway) -> None:
    layout = "--set tensor=8 --set pipeline=4 --set checkpointing=full"
    batch = "--set global_batch=256 --set micro_batch=2"
    asked = f"estimate gpt-neox-20b --on p4d.24xlarge --nodes 4,8 {layout} {batch}"
    assert (
        "the run: sequences of 2,048 tokens, micro-batch 2, 256 a step, tensor 8, 4 pipeline stages, zero1, "
        "full checkpointing of activations" in slipway.told(*asked.split())
    )
    err = slipway.told("estimate", "glue_finetune", "--on", "c6i", "--nodes", "1,4")
    assert "micro-batch 32, 32 a step on 1 node to 128 a step on 4 nodes, no sharding, 3 epochs" in err


def test_a_run_that_is_not_the_article_s_says_which_one_is(slipway: Slipway) -> None:
    _, _, err = slipway("estimate", "bert_pretrain", "--on", "dl1", "--nodes", "1")
    assert "not the run that the article measured; that is: BERT-Large: --set size=large; BERT-1.5B:" in err
    _, _, err = slipway("estimate", "bert_pretrain", "--on", "dl1", "--nodes", "1", "--set", "size=large")
    assert "not the run" not in err


MEASURED_AT = {"bert_pretrain": ("dl1", "8"), "glue_finetune": ("c6i", "1"), "gpt_neox": ("trn1", "4")}


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [(recipe, settings) for recipe, runs in ARTICLE_RUNS.items() for settings in runs.values()],
)
def test_what_is_called_the_article_s_run_stands_on_its_table(
    slipway: Slipway, recipe: str, settings: str
) -> None:
    place, nodes = MEASURED_AT[recipe]
    given = [word for each in settings.split() for word in ("--set", each)]
    code, out, err = slipway("estimate", recipe, "--on", place, "--nodes", nodes, *given, "--json")
    assert code == 0, err
    assert json.loads(out)[0]["word"] in ("measured", "calibrated")
    assert "article measured" not in err


def test_a_size_that_does_not_divide_voids_no_table(slipway: Slipway) -> None:
    sizes = [str(size) for size in range(1, 17)]
    asked = ("bert_pretrain", "--on", "dl1", "--nodes", ",".join(sizes), "--set", "global_batch=23040")
    code, out, _ = slipway("estimate", *asked)
    rows = {line.split()[0]: line for line in out.splitlines()[2:]}
    assert code == 0
    assert list(rows) == sizes
    assert rows["7"].split(maxsplit=1)[1].startswith("global_batch 23040 is not a multiple of the 896")
    assert "not a multiple" not in rows["5"]
    code, out, _ = slipway("estimate", *asked, "--json")
    lines = {line["nodes"]: line for line in json.loads(out)}
    assert "not a multiple" in lines[7]["refused"]
    assert "refused" not in lines[5]


def test_nodes_that_no_catalogue_has_are_estimated_without_a_price(slipway: Slipway) -> None:
    on = ("estimate", "gpt-neox-20b", "--nodes", "8", "--on", "p4d.24xlarge")
    asked = (*on, "--set", "sharding=fsdp", "--set", "checkpointing=full", "--json")
    rates = {}
    for network in ("50", "1600"):
        (row,) = slipway.json(*asked, "--network", network)
        rates[network] = row["sequences_per_second"]
        assert (row["usd_per_hour"], row["place"]) == (None, f"p4d.24xlarge with {network} Gbit/s")
    assert rates["50"] < rates["1600"]
    (row,) = slipway.json(*asked, "--devices", "16")
    assert row["devices"] == 128


def test_a_model_by_its_config_is_estimated_compared_and_drawn(slipway: Slipway, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    config = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000}
    (tmp_path / "small-llama").mkdir()
    (tmp_path / "small-llama" / "config.json").write_text(json.dumps(config))
    model, on = str(tmp_path / "small-llama"), ("--on", "p4d.24xlarge", "--set", "sharding=fsdp")
    code, out, err = slipway("estimate", model, *on, "--nodes", "1,2")
    assert (code, out.splitlines()[0].partition(",")[0]) == (0, "small-llama on p4d.24xlarge")
    assert "where no --set says another" in err
    slipway.told("compare", model, *on, "--nodes", "1")
    slipway.told("report", "page", model, *on, "--nodes", "1", "-o", str(tmp_path / "page.html"))
    assert "small-llama on p4d.24xlarge" in (tmp_path / "page.html").read_text()


def test_an_estimate_of_what_a_submission_refuses_says_so(slipway: Slipway) -> None:
    asked = ("estimate", "bert_pretrain", "--on", "dl1", "--nodes", "1", "--set", "size=large")
    assert "would refuse" not in slipway(*asked)[2]
    err = slipway.told(
        *asked, "--set", "sharded=8", "--set", "optimizer=adamw", "--set", "learning_rate=1e-3"
    )
    assert (
        "warning: slipway submit would refuse it: sharded=8: its engine, native, is proved on PyTorch" in err
    )


# An estimate's time is that of the run that submit would start, and says where it comes from.


@pytest.mark.parametrize("nodes", [1, 8, 16])
@pytest.mark.parametrize(
    "settings",
    [
        ("size=1.5b", "zero=1"),
        ("size=1.5b", "steps=69"),
        ("size=large", "global_batch=65536"),
        ("phase=2",),
        (),
    ],
    ids=" ".join,
)
def test_the_time_is_of_the_run_that_submit_starts_with_the_same_settings(
    slipway: Slipway, settings: tuple[str, ...], nodes: int
) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    on = ("estimate", "bert_pretrain", "--on", "dl1", "--nodes", str(nodes))
    (row,) = slipway.json(*on, *words, "--json")
    run = decode_arguments(settings)
    batch = plan_batch(run, readers=nodes * 8).global_batch
    steps = run.steps_of(batch)
    assert (row["steps"], row["sequences_per_step"]) == (steps, batch)
    seconds = steps * batch / float(str(row["sequences_per_second"])) + 10
    assert float(str(row["hours"])) * 3600 == pytest.approx(seconds)
    assert row["time_basis"] == (
        f"derived: {steps:,} steps of {batch:,} sequences at this rate, and 10 s to start"
    )


def test_twice_the_nodes_take_half_the_steps_of_twice_the_sequences(slipway: Slipway) -> None:
    on = ("bert_pretrain", "--on", "dl1", "--nodes", "16", "--set", "size=1.5b")
    _, out, err = slipway("estimate", *on)
    assert "3,450 × 49,152 12.9 h" in " ".join(out.splitlines()[2].split())
    assert "time and cost: derived from the rate: 169,574,400 sequences of phase 1" in err
    _, _, err = slipway("estimate", *on, "--set", "steps=69")
    assert "derived from the rate: 69 steps of phase 1" in err


# Estimates use the price of the region and the way to pay, and say so if there is none.


def test_a_price_is_that_of_the_region_that_was_named(slipway: Slipway) -> None:
    out = slipway.printed(
        "estimate", "bert-large", "--on", "p4d.24xlarge", "--region", "eu-west-1", "--nodes", "1"
    )
    assert "prices on-demand in eu-west-1 of 2025-11-18 or later" in out
    assert "23.72" in out


def test_capacity_blocks_cost_what_their_page_said_where_it_did(slipway: Slipway) -> None:
    asked = "estimate bert-large --on p5.48xlarge --term capacity-block --nodes 1 --json"
    (row,) = slipway.json(*asked.split())
    assert (row["price"]["usd_per_hour"], row["price"]["date"]) == (39.33, "2024-12")
    assert "capacityblocks" in row["price"]["source"]


def test_the_rates_of_years_are_never_mistaken_for_those_on_demand() -> None:
    on_demand = find_rate(known_rates(), "trn1.32xlarge", "us-east-1")
    assert on_demand is not None
    assert on_demand.usd_per_hour == 21.5
