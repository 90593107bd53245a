"""SMP's parameters become settings of a recipe that train the same, or are refused by name."""

from __future__ import annotations

import pytest

from slipway.containers.recipes.gpt_neox.config import decode
from slipway.containers.training.layout import Layout
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.smp.parameters import NoEqual, SmpV2
from slipway.jobs.words.smp.recipe_settings import StepSize, settings_of_v1, settings_of_v2
from slipway.jobs.words.smp.smp_v1 import SmpV1

ONE_P4D = StepSize(world=8, global_batch=64)


def test_the_articles_training_is_settings_that_a_recipe_reads() -> None:
    smp = SmpV1(ddp=True, tensor_parallel_degree=8, shard_optimizer_state=True, fp16=True)
    settings = settings_of_v1(smp, ONE_P4D)
    assert settings == {
        "tensor": "8",
        "pipeline": "1",
        "sharded": "1",  # no rank is left that holds the same weights
        "micro_batch": "64",
        "precision": "fp16",
    }
    decode(settings)


def test_interleaved_of_smp_is_what_everyone_else_calls_1f1b() -> None:
    smp = SmpV1(ddp=True, pipeline_parallel_degree=2, microbatches=4)
    settings = settings_of_v1(smp, ONE_P4D)
    assert (settings["pipeline_schedule"], settings["micro_batch"]) == ("1f1b", "4")
    decode(settings)


def test_simple_of_smp_is_gpipe_and_offloading_checkpoints_layers() -> None:
    smp = SmpV1(
        ddp=True,
        pipeline_parallel_degree=2,
        microbatches=4,
        active_microbatches=4,
        pipeline="simple",
        offload_activations=True,
    )
    settings = settings_of_v1(smp, ONE_P4D)
    assert settings["pipeline_schedule"] == "gpipe"
    assert (settings["checkpoint_activations"], settings["offload_activations"]) == ("layer", "yes")


def test_sharded_groups_are_the_ranks_that_aws_says() -> None:
    # AWS, "Sharded Data Parallelism", example 2: 32 GPUs, groups (0, 4, 8, 12) and (16, 20, 24, 28).
    smp = SmpV1(ddp=True, sharded_data_parallel_degree=4, tensor_parallel_degree=4, prescaled_batch=True)
    settings = settings_of_v1(smp, StepSize(world=32, global_batch=32))
    layout = Layout.of(32, sharded=int(settings["sharded"]), tensor=int(settings["tensor"]))
    places = [layout.coordinates(rank) for rank in range(32)]
    groups = [
        [rank for rank, at in enumerate(places) if at.tensor == 0 and at.data == replica]
        for replica in (0, 1)
    ]
    assert groups == [[0, 4, 8, 12], [16, 20, 24, 28]]


def test_shards_of_the_optimizers_state_are_cut_over_all_ranks_of_the_same_weights() -> None:
    smp = SmpV1(ddp=True, tensor_parallel_degree=2, shard_optimizer_state=True)
    assert settings_of_v1(smp, ONE_P4D)["sharded"] == "4"
    assert settings_of_v2(SmpV2(tensor_parallel_degree=2), ONE_P4D)["sharded"] == "4"


def test_degrees_that_do_not_make_the_world_are_refused() -> None:
    with pytest.raises(SlipwayError, match="need a multiple of 3 ranks, and there are 8"):
        settings_of_v1(SmpV1(ddp=True, tensor_parallel_degree=3), ONE_P4D)


def test_a_batch_that_does_not_make_whole_micro_batches_is_refused() -> None:
    with pytest.raises(SlipwayError, match="global_batch=64 is no multiple of 8 readers × 3 micro-batches"):
        settings_of_v1(SmpV1(ddp=True, microbatches=3), ONE_P4D)


@pytest.mark.parametrize(
    ("smp", "told"),
    [
        (SmpV1(ddp=True, pipeline_parallel_degree=2), "microbatches: is 1, and 2 stages would stand idle"),
        (
            SmpV1(ddp=True, pipeline_parallel_degree=2, microbatches=8, placement_strategy="DPT"),
            "leave it out: ranks are placed as by 'PDT'",
        ),
        (
            SmpV1(ddp=True, pipeline_parallel_degree=2, microbatches=8, active_microbatches=3),
            "leave it out: 1f1b keeps 2 micro-batches active at most",
        ),
        (SmpV1(auto_partition=False), "the recipe itself cuts layers into stages"),
    ],
)
def test_what_a_recipe_lacks_is_refused_with_the_alternative(smp: SmpV1, told: str) -> None:
    with pytest.raises(NoEqual) as refused:
        settings_of_v1(smp, ONE_P4D)
    assert told in str(refused.value)


@pytest.mark.parametrize("placement", ["PDT", "spread"])  # without tensor ranks they mean the same
def test_a_placement_that_is_ours_is_taken(placement: str) -> None:
    smp = SmpV1(ddp=True, pipeline_parallel_degree=2, microbatches=8, placement_strategy=placement)
    assert settings_of_v1(smp, ONE_P4D)["pipeline"] == "2"
