"""What `slipway estimate gptj_finetune` describes is what the recipe trains with the same settings."""

from __future__ import annotations

import json

import pytest

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.inputs.workloads import SST2_TOKENS, recipe_workload
from slipway.jobs.estimate.work.workloads import Workload
from tests.jobs.conftest import Slipway

BIG = {"size": "gptj-6b", "model": "gpt-j-6b"}


def workload(**settings: str) -> Workload:
    return recipe_workload("gptj_finetune", {**BIG, **settings})


def test_an_epoch_of_sst2_has_the_steps_that_the_recipe_makes_of_it() -> None:
    assert workload(global_batch="64").steps == 67_349 // 64  # what is left of an epoch waits for the next
    assert workload(epochs="3").steps == 3 * 1052
    assert workload(steps="20").steps == 20
    assert workload(steps="2000").steps == 1052


def test_rows_of_sst2_are_as_long_as_its_sentences_and_those_of_text_are_full() -> None:
    assert workload(length="512").model.sequence_length == SST2_TOKENS
    assert workload(task="text", length="512").model.sequence_length == 512


def test_the_head_scores_the_label_alone_unless_the_whole_row_is_trained_on() -> None:
    assert workload().model.head_share == 1 / SST2_TOKENS
    assert workload(loss_on="row").model.head_share == 1


def test_lora_trains_two_adapters_a_layer() -> None:
    """Queries and values, each by a matrix down to the rank and one up from it."""
    own = workload(lora_rank="8").model
    assert own.parameters is not None
    assert own.trained_share * own.parameters == pytest.approx(28 * 2 * 2 * 4096 * 8)
    assert workload().model.trained_share == 1


@pytest.mark.parametrize(
    ("settings", "sharding", "group"),
    [
        ({}, "none", None),
        ({"tensor": "2", "sharded": "4"}, "hybrid", 4),
        ({"tensor": "1", "sharded": "8", "sharded_state": "optimizer"}, "zero2", None),
        ({"tensor": "1", "pipeline": "2", "sharded": "4", "sharded_state": "optimizer"}, "zero1", None),
    ],
)
def test_sharding_is_what_the_recipe_shards(
    settings: dict[str, str], sharding: str, group: int | None
) -> None:
    layout = workload(**settings).layout
    assert (layout.sharding, layout.hybrid_group) == (sharding, group)


def test_a_model_that_nobody_has_counted_is_refused() -> None:
    with pytest.raises(CannotEstimate, match="nobody has counted the model in 'mine'"):
        recipe_workload("gptj_finetune", {"model": "mine"})


def test_the_articles_job_has_a_time_a_price_and_a_band(slipway: Slipway) -> None:
    words = [f"{key}={value}" for key, value in {**BIG, "micro_batch": "64"}.items()]
    on = ["--on", "sagemaker", "--nodes", "1", *(word for each in words for word in ("--set", each))]
    code, out, err = slipway("estimate", "gptj_finetune", *on, "--json")
    (row,) = json.loads(out)
    assert (code, row["devices"], row["steps"], row["word"]) == (0, 8, 1052, "predicted")
    assert row["memory_gib"] < row["usable_gib"]
    assert row["band"] > 0.2
    assert row["price"]["region"] == "us-west-2"
    assert row["usd"] == pytest.approx(row["hours"] * row["price"]["usd_per_hour"])
    assert "no price of ml.p4d.24xlarge in us-east-1 is known; us-west-2's is shown" in err
    assert "waits for its memory" not in err


def test_a_few_tokens_at_a_time_and_a_job_without_an_end_are_told(slipway: Slipway) -> None:
    on = ("estimate", "gptj_finetune", "--on", "ml.p4d.24xlarge", "--nodes", "1", "--set", "size=gptj-6b")
    said = slipway(*on, "--set", "model=m")[2]
    assert "a micro-batch of 8 rows has 128 tokens" in said
    said = slipway(*on, "--set", "model=m", "--set", "task=text")[2]
    assert "no known end; say --set steps=N" in said


def test_a_batch_that_cannot_be_shared_is_refused_with_one_that_can(slipway: Slipway) -> None:
    code, _, err = slipway("estimate", "gptj_finetune", "--on", "sagemaker", "--nodes", "1")
    assert code != 0
    assert "set global_batch to 64, or another micro_batch" in err
