"""LAMB and LANS are the published algorithms."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.training.optimizers import (
    BETAS,
    EPSILON,
    Lamb,
    build_optimizer,
    decay_groups,
    set_rate,
)

RATE, DECAY = 0.01, 0.1


@pytest.mark.parametrize("name", ["lamb", "lans"])
def test_it_is_the_published_algorithm(name: str) -> None:
    """Algorithm 2 of You et al. 2020, and of Zheng et al. 2020: tensor by tensor, in double precision."""
    step_alone = {"lamb": _lamb_step, "lans": _lans_step}[name]
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(*shape, generator=generator) for shape in ((7, 5), (3, 4), (6,))]
    ours = [torch.nn.Parameter(weight.clone()) for weight in weights]
    optimizer = build_optimizer(name, decay_groups(ours, DECAY), is_fused=True)
    expected = [weight.double() for weight in weights]
    means, squares = [[torch.zeros_like(each) for each in expected] for _ in range(2)]
    for step in range(1, 6):
        for at, parameter in enumerate(ours):
            parameter.grad = torch.randn(*parameter.shape, generator=generator)
            step_alone(expected[at], parameter.grad.double(), means[at], squares[at], step)
        set_rate(optimizer, RATE)
        optimizer.step()
    for found, wanted in zip(ours, expected, strict=True):
        torch.testing.assert_close(found.detach().double(), wanted, rtol=1e-5, atol=1e-6)


def test_a_tensor_of_zeros_moves_too() -> None:
    parameter = torch.nn.Parameter(torch.zeros(4, 4))
    optimizer = Lamb(decay_groups([parameter], DECAY))
    parameter.grad = torch.ones(4, 4)
    set_rate(optimizer, RATE)
    optimizer.step()
    torch.testing.assert_close(parameter.detach(), torch.full((4, 4), -RATE), rtol=1e-4, atol=0)


def test_biases_and_norms_do_not_decay() -> None:
    layer, norm = torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)
    decayed, kept = decay_groups([*layer.parameters(), *norm.parameters()], DECAY)
    assert [tuple(param.shape) for param in decayed["params"]] == [(3, 3)]
    assert decayed["weight_decay"] == DECAY
    assert kept["weight_decay"] == 0
    assert len(kept["params"]) == 3


def test_lans_does_not_mind_how_large_a_gradient_is() -> None:
    """A learning rate holds for any loss scale: what a thousandfold gradient moves is the same."""
    moved = []
    for scale in (1.0, 1000.0):
        parameter = torch.nn.Parameter(torch.arange(12.0).view(3, 4))
        optimizer = build_optimizer("lans", decay_groups([parameter], DECAY), is_fused=False)
        parameter.grad = torch.linspace(-1, 1, 12).view(3, 4) * scale
        set_rate(optimizer, RATE)
        optimizer.step()
        moved.append(parameter.detach())
    torch.testing.assert_close(*moved, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["lamb", "lans"])
def test_a_tensor_without_a_gradient_to_speak_of_stays_finite(name: str) -> None:
    parameter = torch.nn.Parameter(torch.ones(4, 4))
    optimizer = build_optimizer(name, decay_groups([parameter], 0.0), is_fused=False)
    parameter.grad = torch.zeros(4, 4)
    set_rate(optimizer, RATE)
    optimizer.step()
    torch.testing.assert_close(parameter.detach(), torch.ones(4, 4))


def _lamb_step(
    weight: torch.Tensor, gradient: torch.Tensor, mean: torch.Tensor, square: torch.Tensor, step: int
) -> None:
    mean.copy_(BETAS[0] * mean + (1 - BETAS[0]) * gradient)
    square.copy_(BETAS[1] * square + (1 - BETAS[1]) * gradient**2)
    update = (mean / (1 - BETAS[0] ** step)) / ((square / (1 - BETAS[1] ** step)).sqrt() + EPSILON)
    trust = 1.0
    if weight.ndim > 1:
        update = update + DECAY * weight
        trust = float(weight.norm() / update.norm())
    weight -= RATE * trust * update


def _lans_step(
    weight: torch.Tensor, gradient: torch.Tensor, mean: torch.Tensor, square: torch.Tensor, step: int
) -> None:
    gradient = gradient / gradient.norm()
    mean.copy_(BETAS[0] * mean + (1 - BETAS[0]) * gradient)
    square.copy_(BETAS[1] * square + (1 - BETAS[1]) * gradient**2)
    root = (square / (1 - BETAS[1] ** step)).sqrt() + EPSILON
    decay = DECAY * weight if weight.ndim > 1 else 0.0
    by_momentum = mean / (1 - BETAS[0] ** step) / root + decay
    by_gradient = gradient / root + decay
    size = weight.norm()
    by_momentum = BETAS[0] * size / by_momentum.norm() * by_momentum
    by_gradient = (1 - BETAS[0]) * size / by_gradient.norm() * by_gradient
    weight -= RATE * (by_momentum + by_gradient)
