"""Gradients add up in fp32, whatever the model computes in."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.training.engines.gradients import GradientSum


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


def _loss(layer: torch.nn.Module, row: torch.Tensor) -> torch.Tensor:
    squared: torch.Tensor = layer(row).float().square().sum()
    return squared
