"""Gradients add up in fp32, whatever the model computes in."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.training.engine import build_engine
from slipway.containers.training.engines.gradients import GradientSum
from tests.containers.training.test_loop import one_batch
from tests.containers.training.tiny_bert import tiny_parts


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_gradients_add_up_over_micro_batches_in_fp32(precision: torch.dtype) -> None:
    layer, idle = torch.nn.Linear(4, 3).to(precision), torch.nn.Linear(2, 2)
    sums = GradientSum([*layer.parameters(), *idle.parameters()], world=1)
    for _ in range(2):  # the second step's sums contain nothing of the first's
        rows = [torch.randn(2, 4).to(precision) for _ in range(3)]
        expected = torch.zeros(3, 4)
        for row in rows:
            expected += torch.autograd.grad(_loss(layer, row), layer.weight)[0].float()
            _loss(layer, row).backward()
        sums.views[idle.weight].fill_(7)
        sums.finish()
        torch.testing.assert_close(sums.views[layer.weight], expected)
        assert not sums.views[idle.weight].any()
        assert layer.weight.grad is None


def test_frozen_weights_stay_and_are_not_saved() -> None:
    parts, model = tiny_parts(settings={"optimizer": "adamw", "learning_rate": "0.01"})
    model.embeddings.requires_grad_(False)
    before = {name: each.clone() for name, each in model.named_parameters()}
    engine = build_engine(parts)
    engine.accumulate(one_batch().micro_batches)
    engine.step(0.01)
    moved = {name for name, each in model.named_parameters() if not torch.equal(each, before[name])}
    assert moved == {piece.parameter for piece in engine.pieces()}
    assert moved == {name for name in before if not name.startswith("embeddings.")}


def _loss(layer: torch.nn.Module, row: torch.Tensor) -> torch.Tensor:
    squared: torch.Tensor = layer(row).float().square().sum()
    return squared
