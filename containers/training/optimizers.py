"""LAMB and LANS (our own: DeepSpeed's LAMB has no processor kernel, and it has no LANS), SGD, torch's AdamW.

All keep `exp_avg`, `exp_avg_sq` and `step` per parameter: one form of checkpoint holds any. A new optimizer
is one entry of OPTIMIZERS, and one word in the config.py of each recipe that may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from slipway.containers.training.state import MOMENTS

BETAS = (0.9, 0.999)
EPSILON = 1e-6  # BERT's own; torch's default is 1e-8


def state_of(optimizer: Optimizer, tensor: Tensor, *, is_fused: bool = False) -> dict[str, Tensor]:
    """Return the optimizer's state of a tensor; create it as torch does, if there was no step yet."""
    state: dict[str, Tensor] = optimizer.state[tensor]
    if not state:
        place = tensor.device if is_fused else torch.device("cpu")
        state["step"] = torch.zeros((), dtype=torch.float32, device=place)
        state |= {kind: torch.zeros_like(tensor) for kind in MOMENTS}
    return state


# The norm of each tensor; and the parameters that the tensors belong to, one by one.
Norms = Callable[[Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]


def own_norms(tensors: Sequence[Tensor], parameters: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the norm of each tensor, which is whole."""
    del parameters
    norms: Sequence[Tensor] = torch._foreach_norm(tensors)
    return norms


def decay_groups(parameters: Iterable[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Split parameters into groups: matrices decay; biases and norms do not (Devlin et al. 2018, A.2)."""
    listed = list(parameters)
    groups = [
        {"params": [parameter for parameter in listed if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in listed if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class _LayerWise(Optimizer):
    """Step each group of parameters as lists of tensors; gradients come clipped."""

    def __init__(
        self, groups: list[dict[str, Any]], *, fused: bool | None = None, norms: Norms = own_norms
    ) -> None:
        del fused  # AdamW's word; all of this goes by lists of tensors anyway
        super().__init__(groups, {"lr": 0.0, "betas": BETAS, "eps": EPSILON})
        self._norms = norms

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        assert closure is None, "these optimizers take no closure"
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            states = [state_of(self, parameter) for parameter in parameters]
            for state in states:
                state["step"] += 1
            self._step_group(parameters, states, group)

    def _step_group(
        self, parameters: list[Tensor], states: list[dict[str, Tensor]], group: Mapping[str, Any]
    ) -> None:
        raise NotImplementedError

    def _trust_ratios(self, parameters: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
        """Return ‖weights‖ / ‖update‖ per tensor, and 1 if either is zero."""
        norms = zip(self._norms(parameters, parameters), self._norms(updates, parameters), strict=True)
        return [
            torch.where((weight > 0) & (update > 0), weight / update, torch.ones_like(weight))
            for weight, update in norms
        ]


class Lamb(_LayerWise):
    """Implement LAMB (You et al. 2020, algorithm 2) with bias correction.

    A group without decay keeps a trust ratio of 1, as in the published BERT recipes.
    """

    def _step_group(
        self, parameters: list[Tensor], states: list[dict[str, Tensor]], group: Mapping[str, Any]
    ) -> None:
        updates, _ = _adam_updates(_gradients(parameters), states, group)
        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            torch._foreach_mul_(updates, self._trust_ratios(parameters, updates))
        torch._foreach_add_(parameters, updates, alpha=-group["lr"])


class Lans(_LayerWise):
    """Implement LANS (Zheng et al. 2020, algorithm 2) with bias correction.

    Every block's gradient is divided by its norm, and momentum and gradient each get a trust ratio, without
    weight decay too. A block is what the optimizer knows the norm of: a tensor, or under ZeRO-1 this rank's
    flat share of all tensors, as in Habana's reference (Model-References, deepspeed-bert/lans.py).
    """

    def _step_group(
        self, parameters: list[Tensor], states: list[dict[str, Tensor]], group: Mapping[str, Any]
    ) -> None:
        gradients = _gradients(parameters)
        norms = self._norms(gradients, parameters)
        scaled = [
            gradient / torch.where(norm > 0, norm + group["eps"], torch.ones_like(norm))
            for gradient, norm in zip(gradients, norms, strict=True)
        ]
        by_momentum, roots = _adam_updates(scaled, states, group)
        by_gradient = list(torch._foreach_div(scaled, roots))
        beta1 = group["betas"][0]
        for updates, share in ((by_momentum, beta1), (by_gradient, 1 - beta1)):
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            ratios = self._trust_ratios(parameters, updates)
            torch._foreach_mul_(updates, [share * ratio for ratio in ratios])
        torch._foreach_add_(by_momentum, by_gradient)
        torch._foreach_add_(parameters, by_momentum, alpha=-group["lr"])


class Sgd(_LayerWise):
    """Implement plain gradient descent. Its moments stay zero, and exist only for checkpoints."""

    def _step_group(
        self, parameters: list[Tensor], states: list[dict[str, Tensor]], group: Mapping[str, Any]
    ) -> None:
        gradients = _gradients(parameters)
        if group["weight_decay"]:
            gradients = list(torch._foreach_add(gradients, parameters, alpha=group["weight_decay"]))
        torch._foreach_add_(parameters, gradients, alpha=-group["lr"])


def _gradients(parameters: list[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _adam_updates(
    gradients: list[Tensor], states: list[dict[str, Tensor]], group: Mapping[str, Any]
) -> tuple[list[Tensor], list[Tensor]]:
    """Move the moments on; return Adam's updates, and the roots of the second moments that they divide by."""
    means, squares = ([state[name] for state in states] for name in MOMENTS)
    (beta1, beta2), step = group["betas"], float(states[0]["step"])
    torch._foreach_lerp_(means, gradients, 1 - beta1)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
    roots = list(torch._foreach_sqrt(squares))
    torch._foreach_div_(roots, (1 - beta2**step) ** 0.5)
    torch._foreach_add_(roots, group["eps"])
    updates = torch._foreach_div(means, roots)
    torch._foreach_div_(updates, 1 - beta1**step)
    return list(updates), roots


def _adamw(groups: list[dict[str, Any]], *, fused: bool | None, norms: Norms) -> Optimizer:
    del norms  # it needs none
    return AdamW(groups, lr=0.0, betas=BETAS, eps=EPSILON, fused=fused)


OPTIMIZERS: Mapping[str, Callable[..., Optimizer]] = {
    "lamb": Lamb,
    "lans": Lans,
    "adamw": _adamw,
    "sgd": Sgd,
}


def build_optimizer(
    name: str, groups: list[dict[str, Any]], *, is_fused: bool, norms: Norms = own_norms
) -> Optimizer:
    """Build an optimizer of whole parameters, or of shares, for which `norms` computes whole norms."""
    return OPTIMIZERS[name](groups, fused=is_fused or None, norms=norms)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
