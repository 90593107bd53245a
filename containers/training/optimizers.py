"""LAMB (our own: DeepSpeed's has no processor kernel), torch's AdamW, and how the learning rate goes.

Both keep `exp_avg`, `exp_avg_sq` and `step` per parameter: one form of checkpoint holds either. A new
optimizer is one entry of OPTIMIZERS, and one word in the config.py of each recipe that may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

BETAS = (0.9, 0.999)
EPSILON = 1e-6  # BERT's own; torch's default is 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Compute the learning rate: up in a line, then down as a power of what is left."""

    peak: float
    steps: int
    warmup_share: float
    decay_power: float

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0; the first one already moves the weights."""
        warmup = int(self.steps * self.warmup_share)
        if step < warmup:
            return self.peak * (step + 1) / (warmup + 1)
        left = (self.steps - step) / (self.steps - warmup)
        return self.peak * left**self.decay_power if left > 0 else 0.0


def decay_groups(parameters: Iterable[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Split parameters into groups: matrices decay; biases and norms do not (Devlin et al. 2018, A.2)."""
    listed = list(parameters)
    groups = [
        {"params": [parameter for parameter in listed if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in listed if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class Lamb(Optimizer):
    """Implement LAMB (You et al. 2020, algorithm 2) with bias correction; gradients come clipped.

    A group without decay keeps a trust ratio of 1, as in the published BERT recipes.
    """

    def __init__(self, groups: list[dict[str, Any]], *, fused: bool | None = None) -> None:
        del fused  # AdamW's word; all of this goes by lists of tensors anyway
        super().__init__(groups, {"lr": 0.0, "betas": BETAS, "eps": EPSILON})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        assert closure is None, "LAMB takes no closure"
        for group in self.param_groups:
            self._step_group(group)

    def _step_group(self, group: Mapping[str, Any]) -> None:
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        if not parameters:
            return
        states = [self._state(parameter) for parameter in parameters]
        for state in states:
            state["step"] += 1
        updates = _adam_updates(parameters, states, group)
        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            torch._foreach_mul_(updates, _trust_ratios(parameters, updates))
        torch._foreach_add_(parameters, updates, alpha=-group["lr"])

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state


def _adam_updates(
    parameters: list[Tensor], states: list[dict[str, Tensor]], group: Mapping[str, Any]
) -> list[Tensor]:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    means, squares = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
    (beta1, beta2), step = group["betas"], float(states[0]["step"])
    torch._foreach_lerp_(means, gradients, 1 - beta1)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_div_(roots, (1 - beta2**step) ** 0.5)
    torch._foreach_add_(roots, group["eps"])
    updates = torch._foreach_div(means, roots)
    torch._foreach_div_(updates, 1 - beta1**step)
    return list(updates)


def _trust_ratios(parameters: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
    """Return ‖weights‖ / ‖update‖ per tensor, and 1 if either is zero."""
    return [
        torch.where((weight > 0) & (update > 0), weight / update, torch.ones_like(weight))
        for weight, update in zip(torch._foreach_norm(parameters), torch._foreach_norm(updates), strict=True)
    ]


def _adamw(groups: list[dict[str, Any]], *, fused: bool | None) -> Optimizer:
    return AdamW(groups, lr=0.0, betas=BETAS, eps=EPSILON, fused=fused)


OPTIMIZERS: Mapping[str, Callable[..., Optimizer]] = {"lamb": Lamb, "adamw": _adamw}


def build_optimizer(name: str, groups: list[dict[str, Any]], *, is_fused: bool) -> Optimizer:
    return OPTIMIZERS[name](groups, fused=is_fused or None)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
