"""Settings are read strictly, and what cannot be trained is refused in one line before a node is paid for."""

from __future__ import annotations

import pytest

from slipway.containers.recipes.gptj_finetune.config import GptjConfig, decode, refuse_spanning
from slipway.containers.recipes.gptj_finetune.data import BatchOrder
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.layout import BatchPlan, Layout, dealt, share_batch

PUBLISHED = {"size": "gptj-6b", "model": "s3://bucket/gpt-j-6b"}


def shared_out(config: GptjConfig, readers: int) -> BatchPlan:
    return share_batch(config.global_batch, config.micro_batch, readers)


def test_gptj_6b_is_tuned_over_the_eight_gpus_of_the_article() -> None:
    config = decode(PUBLISHED)
    assert (config.tensor, config.pipeline, config.checkpoint_activations) == (8, 1, "layer")
    assert (config.task, config.lora_rank, config.engine_name) == ("sst2", 0, "native")
    assert shared_out(config, Layout.of(8, tensor=8).readers).accumulation_steps == 8


def test_where_and_how_it_runs_changes_no_training() -> None:
    free = decode({}).free_to_change
    assert {"tensor", "pipeline", "sharded", "sharded_state", "partition", "rows", "micro_batch"} <= free
    assert not {"rate", "length", "lora_rank", "loss_on", "global_batch", "seed"} & free


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": "gptj-6b"}, "size=gptj-6b begins with published weights; set model to their folder"),
        ({"size": "gptj-7b"}, "size is 'gptj-7b', and must be gptj-6b or tiny"),
        ({"tensor": "3"}, "tensor=3 does not divide the 4 heads of size=tiny; set a divisor of them"),
        ({"length": "512"}, "length=512 is above the 256 positions of size=tiny"),
        ({"offload_activations": "yes"}, "offload_activations=yes and checkpoint_activations=none"),
        ({"least_rate": "0.1"}, "least_rate=0.1 is above rate=0.002"),
        ({"held_out": "texts"}, "held_out and task=sst2: its validation set is measured on"),
        ({"evaluate_every": "5"}, "evaluate_every: this recipe measures by epochs"),
        ({"sharded_state": "optimizer"}, "sharded_state=optimizer and sharded=1: nobody shares it"),
        ({"pipeline_schedule": "interleaved"}, "several stages on a rank are what interleaved means"),
        ({"engine": "plain"}, "engine is 'plain', and must be auto or native or smp"),
        ({"precision": "fp8"}, "precision is 'fp8', and must be auto or bf16 or fp16 or fp32"),
        ({"zero": "1"}, "'zero' is not a setting"),
        ({"sequence_parallel": "yes"}, "sequence_parallel=yes and tensor=1: nobody shares a row"),
        ({"sequence_parallel": "yes", "tensor": "3"}, "tensor=3 does not divide 64, of which rows are made"),
        ({"sequence_parallel": "yes", "tensor": "2", "lora_rank": "4"}, "adapters see whole rows"),
        ({"model": "https://host/x"}, "must be a path below the data folder, or s3://bucket/prefix"),
    ],
)
def test_a_contradiction_is_told_with_its_remedy(given: dict[str, str], said: str) -> None:
    with pytest.raises(Refusal) as refused:
        decode(given)
    assert said in str(refused.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(Refusal, match="3 settings are wrong"):
        decode({"tensor": "3", "rows": "loose", "epochs": "0"})


def test_ranks_that_cut_one_layer_stay_on_a_node() -> None:
    refuse_spanning(Layout(tensor=8, data=2, ranks_per_node=8))
    with pytest.raises(Refusal, match="tensor=16 exceeds a node, which has 8 ranks") as refused:
        refuse_spanning(Layout(tensor=16, ranks_per_node=8))
    assert refused.value.hint is not None
    assert "set tensor to a divisor of 8" in refused.value.hint


@pytest.mark.parametrize("is_even", [False, True])
def test_every_row_of_an_epoch_is_in_one_micro_batch(is_even: bool) -> None:
    np = pytest.importorskip("numpy")
    plan = shared_out(decode({"global_batch": "16", "micro_batch": "2"}), 2)
    lengths = np.arange(5, 69) % 23 + 4
    batches = BatchOrder(lengths=lengths, plan=plan, seed=1, is_even=is_even)
    taken = [batches.micro_batches(step) for step in range(batches.per_epoch)]
    assert sorted(int(row) for step in taken for rows in step for row in rows) == list(range(64))
    assert sorted(dealt(8, 0, 2) + dealt(8, 1, 2)) == list(range(8))
    again = [batches.micro_batches(step) for step in range(batches.per_epoch)]
    assert all(
        (a == b).all()
        for one, other in zip(taken, again, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def test_stages_of_a_pipeline_get_micro_batches_of_about_one_size() -> None:
    np = pytest.importorskip("numpy")
    plan = shared_out(decode({"global_batch": "16", "micro_batch": "4"}), 1)
    lengths = np.arange(1, 17)
    even, sorted_ones = (
        [
            int(lengths[rows].sum())
            for rows in BatchOrder(lengths=lengths, plan=plan, seed=1, is_even=is_even).micro_batches(0)
        ]
        for is_even in (True, False)
    )
    assert (max(even), min(even)) == (34, 34)
    assert (max(sorted_ones), min(sorted_ones)) == (58, 10)
