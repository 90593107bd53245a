"""Stands in for NxD and torch-xla as far as the Neuron engine calls them, on one processor.

Every call must have the published signature, and computes what NxD documents for one rank.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

CALLS: Mapping[str, Mapping[str, str]] = json.loads(
    Path(__file__).with_name("neuron_calls.json").read_text()
)["calls"]


def signature_of(name: str) -> inspect.Signature:
    return inspect.signature(eval(f"lambda {CALLS[name]['signature']}: None"))  # noqa: S307 - our own list


def held(name: str, does: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function be called only with the signature of its original."""
    signature = signature_of(name)

    def call(*arguments: Any, **named: Any) -> Any:
        signature.bind(*arguments, **named)
        return does(*arguments, **named)

    return call


class Model(nn.Module):  # type: ignore[misc]  # torch counts as untyped
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *arguments: Any, **named: Any) -> Any:
        return self.module(*arguments, **named)

    def named_parameters(self, *arguments: Any, **named: Any) -> Any:
        return self.module.named_parameters(*arguments, **named)


class Zero1:
    """Keep fp32 copies of all parameters, which one rank has whole, and clip as torch-xla does."""

    def __init__(self, groups: Any, kind: Any, *, max_norm: float = 1.0, **defaults: Any) -> None:
        self.param_groups = [{**defaults, **group} for group in groups]
        self.max_norm = max_norm
        copies = [
            {**group, "params": [nn.Parameter(each.detach().float().clone()) for each in group["params"]]}
            for group in self.param_groups
        ]
        self.base_optimizer = kind(copies, **defaults)

    def pairs(self) -> Iterable[tuple[nn.Parameter, nn.Parameter]]:
        for group, own in zip(self.param_groups, self.base_optimizer.param_groups, strict=True):
            own["lr"] = group["lr"]
            yield from zip(group["params"], own["params"], strict=True)


class Optimizer:
    def __init__(self, optimizer: Zero1) -> None:
        self.optimizer = optimizer
        self.grad_norm: Tensor | None = None

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    def step(self, closure: Any = None) -> None:
        assert closure is None
        pairs = list(self.optimizer.pairs())
        for parameter, shard in pairs:
            assert parameter.grad is not None
            shard.grad = parameter.grad.float()
        shards = [shard for _, shard in pairs]
        self.grad_norm = nn.utils.clip_grad_norm_(shards, self.optimizer.max_norm)
        self.optimizer.base_optimizer.step()
        for parameter, shard in pairs:
            parameter.data.copy_(shard.data)

    def zero_grad(self, set_to_none: bool = False) -> None:
        assert not set_to_none
        for parameter, _ in self.optimizer.pairs():
            parameter.grad = None


def _configure(**settings: Any) -> dict[str, Any]:
    if settings["pipeline_config"] is not None:
        signature_of("neuronx_distributed.pipeline.NxDPPModel").bind(None, **settings["pipeline_config"])
    return settings


def _build_model(settings: Mapping[str, Any], build: Callable[[], nn.Module]) -> Model:
    """Make empty parameters for each module and let them be filled, as NxD does from the meta device."""
    model, fill = build(), settings["model_init_config"]["param_init_fn"]
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(torch.full_like(parameter, torch.nan, device="cpu")))
        fill(module, torch.device("cpu"))
    return Model(model)


def _build_optimizer(settings: Mapping[str, Any], kind: Any, parameters: Any, **defaults: Any) -> Optimizer:
    assert settings["optimizer_config"]["zero_one_enabled"]
    return Optimizer(Zero1(parameters, kind, **defaults))


class Adam(torch.optim.Optimizer):  # type: ignore[misc]  # torch counts as untyped
    """Count steps in whole numbers as NxD's optimizer does; torch's does not."""

    def __init__(self, parameters: Any, *, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            assert not group["weight_decay"], "NxD decays after the update, torch before"
            for shard in group["params"]:
                self._move(shard.data, shard.grad, self.state[shard], group)

    def _move(self, weights: Tensor, gradient: Tensor, state: Any, group: Mapping[str, Any]) -> None:
        (beta1, beta2), rate = group["betas"], group["lr"]
        if not state:
            state |= {
                "step": 0,
                "exp_avg": torch.zeros_like(weights),
                "exp_avg_sq": torch.zeros_like(weights),
            }
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        roots = (state["exp_avg_sq"] / (1 - beta2 ** state["step"])).sqrt() + group["eps"]
        weights.addcdiv_(state["exp_avg"], roots, value=-rate / (1 - beta1 ** state["step"]))


def _embedding(rows: int, columns: int, *, dtype: torch.dtype) -> nn.Module:
    return nn.Embedding(rows, columns, dtype=dtype)


def _linear(columns: int, rows: int, *, bias: bool, dtype: torch.dtype, **_: object) -> nn.Module:
    return nn.Linear(columns, rows, bias=bias, dtype=dtype)


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "neuronx_distributed.neuronx_distributed_config": _configure,
    "neuronx_distributed.initialize_parallel_model": _build_model,
    "neuronx_distributed.initialize_parallel_optimizer": _build_optimizer,
    "neuronx_distributed.parallel_layers.layers.ParallelEmbedding": _embedding,
    "neuronx_distributed.parallel_layers.layers.ColumnParallelLinear": _linear,
    "neuronx_distributed.parallel_layers.layers.RowParallelLinear": _linear,
    "neuronx_distributed.parallel_layers.loss_functions.parallel_cross_entropy": _cross_entropy,
    "neuronx_distributed.utils.adamw_fp32_optim_params.AdamW_FP32OptimParams": Adam,
    "torch_xla.core.xla_model.mark_step": lambda: None,
}


def modules() -> dict[str, ModuleType]:
    """Return the modules that the engine imports, which contain only the listed names."""
    found: dict[str, ModuleType] = {}
    for name, does in FUNCTIONS.items():
        path, _, leaf = name.rpartition(".")
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            here = ".".join(parts[:end])
            if here not in found:
                found[here] = ModuleType(here)
                found[here].__path__ = []
                if end > 1:
                    setattr(found[".".join(parts[: end - 1])], parts[end - 1], found[here])
        setattr(found[path], leaf, held(name, does))
    return found
