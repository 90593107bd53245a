"""Settings are read strictly; their defaults are those of the article's scripts."""

from __future__ import annotations

import re

import pytest

from slipway.containers.recipes.gpt_neox.config import decode
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.layout import Layout, share_batch


def test_neox_20b_is_trained_with_the_article_s_numbers() -> None:
    config = decode({"size": "neox-20b"})
    assert (config.length, config.global_batch, config.micro_batch) == (2048, 256, 1)
    assert (config.rate, config.least_rate, config.warmup) == (9.7e-5, 1e-5, 0.01)
    assert (config.beta1, config.beta2, config.weight_decay) == (0.9, 0.95, 0.01)
    assert (config.tensor, config.pipeline, config.checkpoint_activations) == (8, 4, "layer")
    assert config.all_steps == 10_000
    assert config.engine_name == "native"


@pytest.mark.parametrize(
    ("accelerator", "whole"), [("neuron", "whole"), ("nvidia", "published"), (None, "published")]
)
def test_whole_heads_turn_where_nxd_trains_as_the_article_has_it(accelerator: str | None, whole: str) -> None:
    assert decode({}).resolved(accelerator).rotary == whole
    for word in ("published", "whole"):
        assert decode({"rotary": word}).resolved(accelerator).rotary == word


def test_settings_that_nxd_cannot_do_are_refused_on_nodes_that_turn_out_to_have_it() -> None:
    assert decode({"sharded": "2"}).resolved("nvidia").engine_name == "native"
    with pytest.raises(Refusal, match="NxD shards the optimizer"):
        decode({"sharded": "2"}).resolved("neuron")


def test_pythia_takes_no_pipeline_and_two_rows_at_a_time() -> None:
    config = decode({"size": "pythia-6.9b"})
    assert (config.tensor, config.pipeline, config.micro_batch, config.rate) == (8, 1, 2, 1.2e-4)


def test_four_nodes_of_the_article_hold_four_copies_of_neox_and_sixteen_of_pythia() -> None:
    for size, copies in (("neox-20b", 4), ("pythia-6.9b", 16)):
        config = decode({"size": size})
        layout = Layout.of(4 * 32, tensor=config.tensor, pipeline=config.pipeline)
        assert layout.data == copies
        assert share_batch(config.global_batch, config.micro_batch, layout.readers).global_batch == 256


def test_tokens_decide_the_length_and_the_last_step_is_whole() -> None:
    assert decode({"length": "100", "global_batch": "10", "tokens": "10001"}).all_steps == 11


def test_the_length_of_a_compilation_changes_no_training() -> None:
    free = decode({}).free_to_change
    assert {"steps", "tokens", "compiled", "tensor", "pipeline", "micro_batch", "sequence_parallel"} <= free
    assert not {"rotary", "rate", "length", "beta2", "global_batch"} & free


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"config": "a", "start_from_model": "b"}, "set one of them"),
        ({"rate": "1e-4", "least_rate": "1e-3"}, "least_rate=0.001 is above rate=0.0001"),
        ({"held_out": "a"}, "held_out and evaluate_every belong together"),
        ({"engine": "deepspeed"}, "engine is 'deepspeed', and must be auto or native or neuron"),
        ({"zero": "1"}, "'zero' is not a setting"),
        ({"optimizer": "lamb"}, "optimizer is 'lamb', and must be adamw"),
        ({"rotary": "half"}, "rotary is 'half', and must be auto or published or whole"),
        ({"engine": "neuron", "sharded": "2"}, "NxD shards the optimizer over all data ranks"),
        ({"device": "neuron", "on_nan": "skip"}, "NxD cannot take back a step; set on_nan=stop"),
        ({"sequence_parallel": "yes"}, "sequence_parallel=yes and tensor=1: nobody shares a row"),
        (
            {"sequence_parallel": "yes", "tensor": "2", "length": "63"},
            "tensor=2 does not divide a row of length=63",
        ),
        ({"engine": "neuron", "tensor": "2", "sequence_parallel": "yes"}, "only native does that"),
        ({"pipeline_schedule": "interleaved"}, "several stages on a rank are what interleaved means"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(given: dict[str, str], said: str) -> None:
    with pytest.raises(Refusal, match=re.escape(said)):
        decode(given)


def test_copies_that_do_not_divide_the_batch_are_told_the_nearest() -> None:
    config = decode({"size": "pythia-6.9b"})
    said = (
        "a global batch of 256 is not a multiple of 24 (micro_batch 2 × 12 copies of the model); "
        "set global_batch=240 or 264"
    )
    with pytest.raises(Refusal, match=re.escape(said)):
        share_batch(config.global_batch, config.micro_batch, 12)
