"""Recipes and the estimate count steps and batches alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.recipes.gpt_neox.config import decode as decode_neox
from slipway.containers.training.layout import IndivisibleBatch, share_batch
from slipway.jobs.estimate import CannotEstimate, Hardware, Layout
from slipway.jobs.estimate.estimates import steps_of_workload
from slipway.jobs.estimate.inputs.workloads import TRAINING_ROWS, recipe_workload
from slipway.jobs.estimate.work.models import MODELS
from slipway.jobs.estimate.work.shapes import accumulation
from slipway.jobs.estimate.work.workloads import find_workload

NODE = Hardware(
    nodes=1,
    devices_per_node=1,
    peak_flops=1e14,
    memory_bytes=1e11,
    intra_node_bytes_per_second=1e11,
    inter_node_bytes_per_second=1e10,
)


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 300))
def test_the_estimate_cuts_a_batch_as_recipes_do_or_refuses_it_with_them(
    readers: int, micro_batch: int, batch: int
) -> None:
    layout = Layout(micro_batch=micro_batch, global_batch=batch)
    try:
        told = accumulation(MODELS["bert-tiny"], replace(NODE, nodes=readers), layout)
    except CannotEstimate:
        with pytest.raises(IndivisibleBatch):
            share_batch(batch, micro_batch, readers)
    else:
        assert told == share_batch(batch, micro_batch, readers).accumulation_steps


@given(st.integers(2048 * 256, 2048 * 256 * 50))
def test_tokens_that_fill_no_whole_row_are_one_step_more_in_both(tokens: int) -> None:
    settings = {"size": "pythia-6.9b", "tokens": str(tokens)}
    told = steps_of_workload(recipe_workload("gpt_neox", settings), 256)
    assert told == decode_neox(settings).all_steps


@pytest.mark.parametrize(("tokens", "steps"), [(3 * 256 * 2048, 3), (3 * 256 * 2048 + 1, 4)])
def test_the_last_step_of_some_tokens_is_whole(tokens: int, steps: int) -> None:
    assert decode_neox({"size": "pythia-6.9b", "tokens": str(tokens)}).all_steps == steps


@pytest.mark.parametrize("steps", [None, 5, 10**6])
def test_fine_tuning_ends_with_its_epochs_however_many_steps_were_asked_for(steps: int | None) -> None:
    settings = {"task": "mrpc", "epochs": "2"} | ({"steps": str(steps)} if steps else {})
    whole = 2 * -(-TRAINING_ROWS["mrpc"] // 32)
    assert steps_of_workload(recipe_workload("glue_finetune", settings), 32) == min(whole, steps or whole)


def test_a_job_without_an_end_has_no_steps() -> None:
    assert steps_of_workload(find_workload("gpt-j-6b"), 8) is None
