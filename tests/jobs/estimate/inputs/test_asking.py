"""`slipway.estimate` answers as the command does, for places and recipes as they are declared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.infra.declare import declared
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.inputs.asking import USUAL_SIZES, estimate
from slipway.jobs.estimate.inputs.places import declared_places, find_place
from slipway.jobs.estimate.inputs.workloads import SST2_TOKENS, recipe_workload
from slipway.jobs.estimate.prices import ON_DEMAND, known_rates
from slipway.jobs.estimate.work.work import memory, parameter_count
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.installation import NoProject
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.conftest import Slipway
from tests.jobs.estimate.inputs.test_model_files import LLAMA_3_8B

BERT = "bert_pretrain"


@pytest.fixture(autouse=True)
def nothing_of_my_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_without_sizes_the_usual_ones_are_estimated() -> None:
    assert tuple(row.nodes for row in estimate(BERT, on="dl1")) == USUAL_SIZES


def test_glue_s_batch_is_dealt_as_the_job_deals_it_and_refused_only_where_the_job_refuses_it() -> None:
    """A node's share of 72 is less than its usual 32 rows, or no multiple of them."""
    settings = {"model": "bert-base-cased", "global_batch": "72"}
    rows = estimate("glue_finetune", on="c6i.16xlarge", nodes=(1, 3, 4), settings=settings)
    assert [row.layout.micro_batch for row in rows] == [24, 24, 18]
    assert [row.sequences_per_step for row in rows] == [72, 72, 72]
    assert [row.changed for row in rows] == ["", "", ""]
    with pytest.raises(CannotEstimate, match="72 is not a multiple of the 5 sequences that 5 replicas"):
        estimate("glue_finetune", on="c6i.16xlarge", nodes=5, settings=settings)


def test_no_more_nodes_are_estimated_than_the_cluster_declares() -> None:
    rows = estimate("glue_finetune", on="c6i", settings={"model": "bert-base-cased"})
    assert [row.nodes for row in rows] == [1, 2, 4]


def test_one_size_is_a_number_and_more_come_in_order_once_each() -> None:
    assert [row.nodes for row in estimate(BERT, on="dl1", nodes=16)] == [16]
    assert [row.nodes for row in estimate(BERT, on="dl1", nodes=[8, 1, 8])] == [1, 8]


def test_a_size_that_cannot_work_is_refused_with_one_that_can() -> None:
    with pytest.raises(CannotEstimate) as refused:
        estimate(BERT, on="dl1", nodes=(1, 17))
    assert "17 nodes are more than the 16" in refused.value.message
    assert "at most 16" in refused.value.hint


# An estimate is for a declared cluster, a type, or a deployed cluster.
RATES = known_rates()


def test_a_declared_cluster_has_its_size_its_region_and_what_stands_around_it() -> None:
    place = find_place("dl1", RATES, region=None, term=ON_DEMAND)
    assert (place.instance.name, place.most_nodes, place.region) == ("dl1.24xlarge", 16, "us-east-1")
    assert place.overheads.interface_endpoints == 11


def test_every_declared_cluster_is_a_place() -> None:
    assert {"dl1", "c6i"} <= {place.name for place in declared_places(RATES, region=None, term=ON_DEMAND)}


def test_without_a_checkout_a_target_is_asked_for(
    target: BatchTarget, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop that only submits has no infra folder."""

    def nothing_declared() -> None:
        raise NoProject("there is none")

    monkeypatch.setattr(declared, "declared_clusters", nothing_declared)
    place = find_place("dl1", RATES, region=None, term=ON_DEMAND)
    assert (place.instance.name, place.most_nodes) == (target.instance_type, target.max_nodes)
    assert declared_places(RATES, region=None, term=ON_DEMAND) == []
    assert "no target is called 'dl9'" in slipway.told("estimate", "bert-large", "--on", "dl9", code=1)


# What `slipway estimate gptj_finetune` describes is what the recipe trains with the same settings.
BIG = {"size": "gptj-6b", "model": "gpt-j-6b"}


def workload(**settings: str) -> Workload:
    return recipe_workload("gptj_finetune", {**BIG, **settings})


def test_an_epoch_of_sst2_has_the_steps_that_the_recipe_makes_of_it() -> None:
    assert workload(global_batch="64").steps == 67_349 // 64  # the rest of an epoch is left for the next one
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


def test_a_micro_batch_that_keeps_a_gpu_waiting_for_its_processor_is_told(slipway: Slipway) -> None:
    """On an H200, 24 micro-batches of 16 rows took 5.7 times as long as 2 of 192."""
    on = ("estimate", "bert_pretrain", "--nodes", "1", "--set", "size=large", "--on")
    assert "that leaves 8% of its peak; set a larger micro_batch" in slipway(*on, "p5en.48xlarge")[2]
    larger = ("--set", "micro_batch=192", "--set", "accumulation_steps=2")
    assert "of its peak" not in slipway(*on, "p5en.48xlarge", *larger)[2]
    assert "of its peak" not in slipway(*on, "dl1.24xlarge")[2]


def test_a_batch_that_cannot_be_shared_is_refused_with_one_that_can(slipway: Slipway) -> None:
    code, _, err = slipway("estimate", "gptj_finetune", "--on", "sagemaker", "--nodes", "1")
    assert code != 0
    assert "set global_batch to 64, or another micro_batch" in err


# The recipe sft trains any model: known by name, or by a config.json that lies here.


@pytest.mark.parametrize("place", ["models/llama-8b", "s3://mine/models/llama-8b"])
def test_a_model_of_any_kind_is_counted_by_its_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = tmp_path / ("llama-8b" if "://" in place else place)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(LLAMA_3_8B))
    monkeypatch.chdir(tmp_path)
    own = recipe_workload("sft", {"model": place, "length": "2048", "lora_rank": "16", "steps": "9"})
    assert (own.model.sequence_length, own.steps, own.model.layers) == (2048, 9, 32)
    assert "norms and gates run kernel by kernel without --set compile_layers=yes" in own.assumed
    # PEFT's own count of Llama 3 8B with r=16 and all-linear is 41,943,040.
    assert own.model.trained_share * parameter_count(own.model) == pytest.approx(41_943_040)


def test_fsdp_adapters_and_4_bits_make_room() -> None:
    """GPT-NeoX 20B on a node of p5: 16 bytes for a trained weight, 2 for a frozen one, or half a byte."""
    node = cluster_of(instance_type("p5.48xlarge"), 1)

    def held(*words: str) -> float:
        settings = dict(word.split("=") for word in ("model=gpt-neox-20b", *words))
        workload = recipe_workload("sft", settings)
        of = memory(workload.model, node, workload.layout)
        return (of.weights + of.gradients + of.optimizer) / parameter_count(workload.model)

    assert held() == pytest.approx(16)
    assert held("fsdp=yes") == pytest.approx(16 / 8)
    assert held("lora_rank=8") == pytest.approx(2, rel=0.05)
    assert held("lora_rank=8", "quantize=nf4") == pytest.approx(0.516, rel=0.1)


def test_a_model_that_is_not_here_is_refused_with_what_to_do() -> None:
    with pytest.raises(CannotEstimate, match="nobody has counted the model in 's3://mine/qwen'") as caught:
        recipe_workload("sft", {"model": "s3://mine/qwen"})
    assert "put its config.json into qwen/ of this folder" in str(caught.value.hint)
