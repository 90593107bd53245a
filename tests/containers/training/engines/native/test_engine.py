"""The native engine refuses what it cannot cut, and keeps fp16 from overflowing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import distributed

from slipway.containers.models.adapters import AdaptedDecoder
from slipway.containers.models.decoder import DecoderShape
from slipway.containers.recipes.glue_finetune.model import GlueLoss
from slipway.containers.recipes.gptj_finetune.config import KNOWN_SIZES
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engine import EngineParts
from slipway.containers.training.engines.native import engine as native
from slipway.containers.training.engines.native.assembly import local_of, narrow_frozen
from slipway.containers.training.engines.native.engine import NativeSettings, build_native
from slipway.containers.training.engines.native.updates import LossScale
from slipway.containers.training.layout import Layout
from slipway.containers.training.state import ENGINE
from tests.containers.training.engines.native.trainings import (
    DECODER,
    PROCESSOR,
    Training,
    build_parts,
    micro_batches,
    save,
    saved_at,
)
from tests.containers.training.held_state import taken


@pytest.fixture
def alone() -> Iterator[None]:
    """Join a process group of one, which layers in another precision than their weights need."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_half_precision_trains_as_fp32_does_with_fp32_weights(precision: torch.dtype) -> None:
    half = Training.decoder_on(replace(PROCESSOR, precision=precision))
    whole = Training.of("decoder", Layout(), 0)
    assert half.steps(range(3)) == pytest.approx(whole.steps(range(3)), rel=0.03)
    assert {piece.data.dtype for piece in half.engine.pieces()} == {torch.float32}


@pytest.mark.usefixtures("alone")
def test_a_step_that_overflows_fp16_changes_nothing_and_lowers_the_scale() -> None:
    training = Training.decoder_on(replace(PROCESSOR, precision=torch.float16))
    scale = training.engine.scale
    assert scale is not None, "fp16 has one"
    scale.value = 2.0**40
    before = taken(training.engine.pieces())
    _, norm, _ = training.step(0)
    assert not norm < float("inf")
    assert training.engine.loss_scale == 2.0**39
    after = taken(training.engine.pieces())
    assert all(torch.equal(old, after[key]) for key, old in before.items() if key[0] != ENGINE)
    scale.value = 2.0**10
    assert training.step(0)[1] < float("inf")


@pytest.mark.usefixtures("alone")
def test_a_resumed_training_in_fp16_goes_on_with_its_loss_scale(tmp_path: Path) -> None:
    def begun() -> Training:
        return Training.decoder_on(replace(PROCESSOR, precision=torch.float16))

    first, second = begun(), begun()
    scale = first.engine.scale
    assert scale is not None, "fp16 has one"
    scale.value, scale.good_steps = 2.0**10, 5
    first.steps(range(2))
    save(first.engine, tmp_path, 2)
    second.engine.restore(saved_at(tmp_path, 2), 2)
    assert second.engine.scale == LossScale(value=2.0**10, good_steps=7)
    assert second.steps(range(2, 3)) == first.steps(range(2, 3))


def adapted(layout: Layout, precision: torch.dtype) -> EngineParts:
    """Return what trains adapters of a small GPT-J."""
    parts = build_parts("decoder", layout, 0, device=replace(PROCESSOR, precision=precision))
    with torch.device("meta"):
        model = AdaptedDecoder(DECODER, rank=2, alpha=4.0, seed=3)
    return replace(parts, model=model)


def held_bytes(parts: EngineParts) -> tuple[int, int]:
    """Return what an engine holds of parameters that are trained, and of those that are not."""
    engine = build_native(parts, NativeSettings())
    trained, frozen = 0, 0
    for parameter in (each for root in engine._roots for each in root.parameters()):
        size = local_of(parameter.detach()).nbytes
        trained, frozen = (trained + size, frozen) if parameter.requires_grad else (trained, frozen + size)
    return trained, frozen


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_frozen_weights_take_half_the_memory_in_16_bits_and_compute_the_same(
    precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbers() -> list[float]:
        parts = adapted(Layout(), precision)
        training = Training("decoder", parts, build_native(parts, NativeSettings()))
        if training.engine.scale is not None:
            training.engine.scale.value = 2.0**10
        return training.steps(range(3))

    trained, frozen = held_bytes(adapted(Layout(), torch.float32))
    assert held_bytes(adapted(Layout(), precision)) == (trained, frozen // 2)
    narrow = numbers()
    monkeypatch.setattr(native, "narrow_frozen", lambda stage, parts: None)
    assert held_bytes(adapted(Layout(), precision)) == (trained, frozen)
    assert narrow == numbers(), "bit for bit: layers compute in 16 bits either way"


def test_gptj_6b_with_adapters_holds_so_little_that_a_device_of_24_gb_has_room_for_the_rest() -> None:
    known = KNOWN_SIZES["gptj-6b"]
    shape = DecoderShape(family="gptj", intermediate=4 * known.hidden, has_head_bias=True, **asdict(known))
    with torch.device("meta"):
        model = AdaptedDecoder(shape, rank=8, alpha=16.0, seed=3)
    device = replace(PROCESSOR, precision=torch.bfloat16)
    narrow_frozen(model, replace(build_parts("decoder", Layout(), 0), model=model, device=device))
    weights = sum(parameter.nbytes for parameter in model.parameters())
    trained = sum(parameter.nbytes for parameter in model.parameters() if parameter.requires_grad)
    assert weights + 3 * trained < 12.3e9  # a gradient and two moments beside what is trained


def test_the_loss_scale_grows_again_after_many_good_steps() -> None:
    scale = LossScale(value=8.0, steps_to_double=3)
    for is_finite in (True, True, False, True, True, True):
        scale.note(is_finite=is_finite)
    assert scale.value == 8.0  # halved once, doubled once


def test_a_task_that_knows_no_stages_is_refused_in_a_pipeline() -> None:
    parts = replace(build_parts("encoder", Layout(pipeline=2), 0), task=GlueLoss())
    with pytest.raises(Refusal, match="a pipeline cannot train GlueLoss; set pipeline=1"):
        build_native(parts, NativeSettings())


def test_readers_share_the_micro_batches_of_a_step() -> None:
    seeds = [batch.seed for rank in range(2) for batch in micro_batches("decoder", 1, Layout(data=2), rank)]
    assert sorted(seeds) == [batch.seed for batch in micro_batches("decoder", 1, Layout(), 0)]
