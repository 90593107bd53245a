"""Layers keep for their backward what was asked for, and compute the same."""

from __future__ import annotations

import weakref

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from slipway.containers.training.engines.native.activations import Keeping, LayerMemory
from slipway.containers.training.engines.native.assembly import Draws
from slipway.containers.training.engines.native.engine import NativeSettings
from slipway.containers.training.layout import Layout
from tests.containers.training.engines.native.trainings import Training

LAYERS, ROWS, WIDTH = 5, 4, 8
INPUT = ROWS * WIDTH * 4  # bytes
WHOLE = 2 * INPUT  # a layer keeps its input for the matrix, and the matrix's output for the tangent


class Layer(nn.Module):  # type: ignore[misc]  # torch counts as untyped
    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Linear(WIDTH, WIDTH)
        self.times = 0

    def forward(self, hidden: Tensor) -> Tensor:
        self.times += 1
        return torch.tanh(self.matrix(hidden))


class Noting(nn.Module):  # type: ignore[misc]  # torch counts as untyped
    """Keep a tensor for the backward, and remember it only while another does."""

    def forward(self, hidden: Tensor) -> Tensor:
        found = torch.tanh(hidden)
        self.noted = weakref.ref(found)
        return found * found


def times_run(keeping: Keeping) -> tuple[list[int], Tensor]:
    torch.manual_seed(0)
    layers = [Layer() for _ in range(LAYERS)]
    memory = LayerMemory(keeping, Draws(lambda number: None, 0))
    for number, layer in enumerate(layers):
        memory.take(layer, number)
    for _ in range(2):  # the first micro-batch is measured
        for layer in layers:
            layer.times = 0
        hidden = torch.ones(ROWS, WIDTH, requires_grad=True)
        found: Tensor = nn.Sequential(*layers)(hidden)
        found.sum().backward()
    assert hidden.grad is not None, "it was asked for"
    return [layer.times for layer in layers], hidden.grad


def test_layers_go_forward_again_where_only_inputs_are_kept() -> None:
    once, gradient = times_run(Keeping())
    again, same = times_run(Keeping(recomputes=True))
    assert (once, again) == ([1] * LAYERS, [2] * LAYERS)
    assert torch.equal(gradient, same)


@pytest.mark.parametrize("kept", range(LAYERS + 1))
def test_a_budget_keeps_as_many_layers_whole_as_fit(kept: int) -> None:
    fits = kept * WHOLE + (LAYERS - kept) * INPUT
    for budget, expected in ((fits, kept), (fits - 1, max(0, kept - 1))):
        times, _ = times_run(Keeping(recomputes=True, budget_bytes=budget))
        assert times == [1] * expected + [2] * (LAYERS - expected)


def test_what_is_offloaded_leaves_the_device_until_the_backward_asks_for_it() -> None:
    def still_there(keeping: Keeping) -> tuple[bool, Tensor]:
        torch.manual_seed(0)
        layer = nn.Sequential(nn.Linear(WIDTH, WIDTH), Noting())
        LayerMemory(keeping, Draws(lambda number: None, 0)).take(layer, 0)
        loss = layer(torch.ones(ROWS, WIDTH)).sum()
        is_there = layer[1].noted() is not None
        loss.backward()
        return is_there, layer[0].weight.grad

    kept, gradient = still_there(Keeping())
    offloaded, same = still_there(Keeping(offloads=True, smallest_offloaded=0))
    assert (kept, offloaded) == (True, False)
    assert torch.equal(gradient, same)


@pytest.mark.parametrize("recomputes", [False, True])
def test_a_training_that_offloads_loses_what_others_do(recomputes: bool) -> None:
    assert losses(Keeping(offloads=True, smallest_offloaded=0, recomputes=recomputes)) == losses(Keeping())


def test_a_recomputation_draws_the_dropout_of_the_first_time() -> None:
    assert losses(Keeping(recomputes=True)) == losses(Keeping())


def losses(keeping: Keeping) -> list[float]:
    return Training.of("decoder", Layout(), 0, NativeSettings(keeping=keeping)).steps(range(2))
