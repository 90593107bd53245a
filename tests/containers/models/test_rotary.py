"""Heads that rotate whole give the same scores as heads that rotate in part, and are published unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.models.configs import config_of
from slipway.containers.models.decoder import Decoder, DecoderShape, build_decoder
from slipway.containers.models.folder import ModelPlan, described, write_model
from slipway.containers.models.published import load_weights, open_model
from slipway.containers.models.rotary import rearranged
from slipway.containers.runtime.checkpoint.boxes import Box

NEOX = DecoderShape(
    family="neox",
    layers=2,
    hidden=96,
    heads=2,
    intermediate=64,
    vocabulary=61,
    rotary_dimensions=12,  # a quarter of a head, as published
    positions=32,
    has_attention_bias=True,
    initial_spread=0.2,
)
SHAPES: Mapping[str, DecoderShape] = {
    "a quarter": NEOX,
    "a whole head": replace(NEOX, rotary_dimensions=48),
    "neighbours": replace(NEOX, family="gptj", rotary_dimensions=16, has_head_bias=True),
}


def whole(shape: DecoderShape) -> DecoderShape:
    return replace(shape, rotates_whole_heads=True)


def uneven(shape: DecoderShape) -> Decoder:
    """Build a decoder whose biases differ, too, so that a swap of two would show."""
    decoder = build_decoder(shape, seed=3)
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            drawn = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name)))
            parameter.add_(rearranged(shape, name, drawn), alpha=0.1)
    return decoder


@pytest.mark.parametrize("kind", SHAPES)
def test_whole_heads_give_the_outputs_and_gradients_of_the_published_rotation(kind: str) -> None:
    shape = SHAPES[kind]
    words = torch.randint(shape.vocabulary, (2, 19), generator=torch.Generator().manual_seed(0))
    published, other = uneven(shape).double(), uneven(whole(shape)).double()
    expected, scores = published(words), other(words)
    torch.testing.assert_close(scores, expected, rtol=1e-10, atol=1e-10)
    for found in (expected, scores):
        F.cross_entropy(found[:, :-1].flatten(0, 1), words[:, 1:].flatten()).backward()
    for name, parameter in published.named_parameters():
        assert parameter.grad is not None
        gradient = rearranged(whole(shape), name, parameter.grad)
        torch.testing.assert_close(other.get_parameter(name).grad, gradient, rtol=1e-10, atol=1e-10)


def test_the_rows_of_a_quarter_are_kept_in_another_order_and_those_of_values_are_not() -> None:
    name = "layers.0.attention.query_key_value.weight"
    rows = torch.arange(2 * 3 * 48)[:, None]
    moved = rearranged(whole(NEOX), name, rows).view(2, 3, 48)
    assert moved[0, 0, :8].tolist() == [0, 1, 2, 3, 4, 5, 12, 13]
    assert moved[0, 0, 24:26].tolist() == [6, 7]
    assert moved[1, 2].tolist() == list(range(5 * 48, 6 * 48))
    assert sorted(moved.flatten().tolist()) == rows.flatten().tolist()
    assert rearranged(whole(NEOX), "layers.0.mlp.up.weight", rows) is rows


def test_weights_come_and_go_in_the_published_order(tmp_path: Path) -> None:
    def written(place: str, shape: DecoderShape) -> Path:
        decoder = uneven(shape)
        sizes = {name: tuple(parameter.shape) for name, parameter in decoder.named_parameters()}
        plan = ModelPlan(shape=shape, sizes=sizes)
        files = described(config_of(shape, "GPTNeoXForCausalLM"), {})
        return write_model(tmp_path / place, plan, lambda name: decoder.get_parameter(name).detach(), files)

    published, other = written("published", NEOX), written("whole", whole(NEOX))
    assert (published / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    found = open_model(str(published))
    weights = replace(found, shape=whole(NEOX)).weights()
    ours = build_decoder(whole(NEOX), seed=9)
    assert load_weights(ours, weights) == []
    expected = uneven(whole(NEOX))
    for name, parameter in expected.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter)
        for box in halves(tuple(parameter.shape)):
            assert torch.equal(weights.read(name, box, tuple(parameter.shape)), parameter[box.slices])


def halves(shape: tuple[int, ...]) -> list[Box]:
    """Cut off ten rows, which is not where a head ends."""
    low = min(10, shape[0] - 1)
    zeros = (0,) * (len(shape) - 1)
    return [Box((0, *zeros), (low, *shape[1:])), Box((low, *zeros), (shape[0] - low, *shape[1:]))]
