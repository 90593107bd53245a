"""The native engine refuses what it cannot cut, and keeps fp16 from overflowing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import distributed

from slipway.containers.recipes.glue_finetune.model import GlueLoss
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engines.native.engine import NativeSettings, build_native
from slipway.containers.training.engines.native.pipeline import check_schedule
from slipway.containers.training.engines.native.updates import LossScale
from slipway.containers.training.layout import Layout
from tests.containers.training.engines.native.trainings import (
    PROCESSOR,
    Training,
    build_parts,
    micro_batches,
    save,
    saved_at,
)


@pytest.fixture
def alone() -> Iterator[None]:
    """Join a process group of one, which layers in another precision than their weights need."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_half_precision_trains_as_fp32_does_with_fp32_weights(precision: torch.dtype) -> None:
    half = Training.of("decoder", Layout(), 0, device=replace(PROCESSOR, precision=precision))
    whole = Training.of("decoder", Layout(), 0)
    assert half.steps(range(3)) == pytest.approx(whole.steps(range(3)), rel=0.03)
    assert {piece.data.dtype for piece in half.engine.pieces()} == {torch.float32}


@pytest.mark.usefixtures("alone")
def test_a_step_that_overflows_fp16_changes_nothing_and_lowers_the_scale() -> None:
    training = Training.of("decoder", Layout(), 0, device=replace(PROCESSOR, precision=torch.float16))
    scale = training.engine.scale
    assert scale is not None, "fp16 has one"
    scale.value = 2.0**40
    before = [piece.data.clone() for piece in training.engine.weights()]
    _, norm, _ = training.step(0)
    assert not norm < float("inf")
    assert training.engine.loss_scale == 2.0**39
    after = [piece.data for piece in training.engine.weights()]
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    scale.value = 2.0**10
    assert training.step(0)[1] < float("inf")


@pytest.mark.usefixtures("alone")
def test_a_resumed_training_in_fp16_goes_on_with_its_loss_scale(tmp_path: Path) -> None:
    def begun() -> Training:
        return Training.of("decoder", Layout(), 0, device=replace(PROCESSOR, precision=torch.float16))

    first, second = begun(), begun()
    scale = first.engine.scale
    assert scale is not None, "fp16 has one"
    scale.value, scale.good_steps = 2.0**10, 5
    first.steps(range(2))
    save(first.engine, tmp_path, 2)
    second.engine.restore(saved_at(tmp_path, 2), 2)
    assert second.engine.scale == LossScale(value=2.0**10, good_steps=7)
    assert second.steps(range(2, 3)) == first.steps(range(2, 3))


def test_the_loss_scale_grows_again_after_many_good_steps() -> None:
    scale = LossScale(value=8.0, steps_to_double=3)
    for is_finite in (True, True, False, True, True, True):
        scale.note(is_finite=is_finite)
    assert scale.value == 8.0  # halved once, doubled once


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (Layout(tensor=3), "tensor=3 does not divide the model's 4 heads; set tensor to a divisor of 4"),
        (
            Layout(pipeline=8),
            "pipeline=8 makes 8 stages, and the model has 4 layers; set pipeline to at most 4",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_layout_that_does_not_fit_the_model_is_refused(layout: Layout, said: str, kind: str) -> None:
    with pytest.raises(Refusal, match=re.escape(said)):
        build_native(build_parts(kind, layout, 0), NativeSettings())


def test_a_task_that_knows_no_stages_is_refused_in_a_pipeline() -> None:
    parts = replace(build_parts("encoder", Layout(pipeline=2), 0), task=GlueLoss())
    with pytest.raises(Refusal, match="a pipeline cannot train GlueLoss; set pipeline=1"):
        build_native(parts, NativeSettings())


@pytest.mark.parametrize(
    ("schedule", "micro_batches", "said"),
    [
        ("1f1b", 3, "a step has 3 micro-batches and the pipeline 4 stages"),
        ("interleaved", 5, "pipeline_schedule=interleaved deals 5 micro-batches unevenly over 2 ranks"),
    ],
)
def test_a_step_of_too_few_micro_batches_is_refused(schedule: str, micro_batches: int, said: str) -> None:
    with pytest.raises(Refusal, match=re.escape(said)):
        check_schedule(schedule, micro_batches, stages=4, ranks=2)


def test_readers_share_the_micro_batches_of_a_step() -> None:
    seeds = [batch.seed for rank in range(2) for batch in micro_batches("decoder", 1, Layout(data=2), rank)]
    assert sorted(seeds) == [batch.seed for batch in micro_batches("decoder", 1, Layout(), 0)]
