"""LAMB is the published algorithm, and the learning rate goes where it should."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.training.optimizers import (
    BETAS,
    EPSILON,
    Lamb,
    Schedule,
    build_optimizer,
    decay_groups,
    set_rate,
)

RATE, DECAY = 0.01, 0.1


def test_lamb_is_the_published_algorithm() -> None:
    """Algorithm 2 of You et al. 2020, one tensor and one operation at a time, in double precision."""
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(*shape, generator=generator) for shape in ((7, 5), (3, 4), (6,))]
    ours = [torch.nn.Parameter(weight.clone()) for weight in weights]
    optimizer = build_optimizer("lamb", decay_groups(ours, DECAY), is_fused=True)
    expected = [weight.double() for weight in weights]
    means, squares = [[torch.zeros_like(each) for each in expected] for _ in range(2)]
    for step in range(1, 6):
        for at, parameter in enumerate(ours):
            parameter.grad = torch.randn(*parameter.shape, generator=generator)
            _lamb_step(expected[at], parameter.grad.double(), means[at], squares[at], step)
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
    assert [tuple(each.shape) for each in decayed["params"]] == [(3, 3)]
    assert decayed["weight_decay"] == DECAY
    assert kept["weight_decay"] == 0
    assert len(kept["params"]) == 3


def test_the_rate_rises_in_a_line_and_falls_to_zero() -> None:
    schedule = Schedule(peak=1.0, steps=100, warmup_share=0.2, decay_power=0.5)
    rates = [schedule.rate(step) for step in range(101)]
    assert rates[0] > 0
    assert rates[20] == max(rates) == 1.0
    assert rates[10] == pytest.approx(11 / 21)
    assert rates[60] == pytest.approx(0.5**0.5)
    assert rates[100] == 0
    assert rates[:21] == sorted(rates[:21])
    assert rates[20:] == sorted(rates[20:], reverse=True)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_rate_without_rise_or_without_fall_is_no_error(share: float) -> None:
    schedule = Schedule(peak=1.0, steps=3, warmup_share=share, decay_power=1.0)
    assert all(0 < schedule.rate(step) <= 1 for step in range(3))


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
