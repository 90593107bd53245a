"""Plain data parallel: weights, gradients and moments on every rank; fp32 weights next to a bf16 model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device
from slipway.containers.training.gradients import GradientSum
from slipway.containers.training.optimizers import EPSILON, build_optimizer, decay_groups, set_rate
from slipway.containers.training.state import MOMENTS, WEIGHTS, TensorPiece, load_weights

_CLIP_EPSILON = 1e-6  # torch's and DeepSpeed's


class Updates(Protocol):
    """Name the settings that the engine needs from a recipe."""

    @property
    def optimizer(self) -> str: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def clip_norm(self) -> float: ...


class TrainingParts(Protocol):
    """Hold what a training of any recipe is made of."""

    @property
    def config(self) -> Updates: ...
    @property
    def model(self) -> torch.nn.Module: ...
    @property
    def device(self) -> Device: ...
    @property
    def plan(self) -> BatchPlan: ...
    @property
    def rank(self) -> int: ...


class DataParallel:
    def __init__(self, parts: TrainingParts, *, epsilon: float = EPSILON) -> None:
        self._parts = parts
        self._named: dict[str, Parameter] = dict(parts.model.named_parameters())
        self._gradients = GradientSum(self._named.values(), parts.plan.world)
        self._masters = {name: self._master(parameter) for name, parameter in self._named.items()}
        groups = decay_groups(self._masters.values(), parts.config.weight_decay)
        self._optimizer = build_optimizer(
            parts.config.optimizer,
            [{**group, "eps": epsilon} for group in groups],
            is_fused=parts.device.has_fused_adam,
        )

    def backward(self, loss: Tensor, *, is_last: bool) -> None:
        if is_last:
            self._gradients.begin_last()
        (loss / self._parts.plan.accumulation_steps).backward()

    def step(self, rate: float) -> float:
        self._gradients.finish()
        norm = float(self._gradients.norm())
        if math.isfinite(norm):
            clip = self._parts.config.clip_norm / (norm + _CLIP_EPSILON)
            if clip < 1:
                self._gradients.scale(clip)
            set_rate(self._optimizer, rate)
            self._optimize()
        return norm

    def pieces(self) -> list[TensorPiece]:
        """Return this rank's share of the whole tensors; every rank has them all."""
        mine = list(self._masters.items())[self._parts.rank :: self._parts.plan.world]
        kinds = [(WEIGHTS, name, master) for name, master in mine]
        kinds += [(kind, name, self._moments(master)[kind]) for name, master in mine for kind in MOMENTS]
        return [
            TensorPiece(kind=kind, parameter=name, start=0, data=tensor.detach().view(-1))
            for kind, name, tensor in kinds
        ]

    def weights(self) -> Mapping[str, Tensor]:
        """Return the whole weights in fp32; every rank has them."""
        return self._masters

    def restore(self, pieces: Iterable[TensorPiece], steps: int) -> None:
        for piece in pieces:
            master = self._masters[piece.parameter]
            moments = self._moments(master)
            target = master if piece.kind == WEIGHTS else moments[piece.kind]
            piece.copy_to(target.detach().view(-1), 0)
            moments["step"].fill_(steps)
        self._publish_masters()

    def start_from(self, pieces: Iterable[TensorPiece]) -> None:
        for piece in pieces:
            if piece.kind == WEIGHTS:
                piece.copy_to(self._masters[piece.parameter].detach().view(-1), 0)
                load_weights(self._parts.model, piece)

    def _master(self, parameter: Parameter) -> Tensor:
        if parameter.dtype is torch.float32:
            return parameter
        return parameter.detach().float()

    def _optimize(self) -> None:
        for name, parameter in self._named.items():
            self._masters[name].grad = self._gradients.views[parameter]
        self._optimizer.step()
        self._optimizer.zero_grad()  # lets go of the views; autograd would add to them
        self._publish_masters()

    def _publish_masters(self) -> None:
        if self._parts.device.precision is not torch.float32:
            with torch.no_grad():
                torch._foreach_copy_(list(self._named.values()), list(self._masters.values()))

    def _moments(self, master: Tensor) -> dict[str, Tensor]:
        """Return the optimizer's moments, and make them if no step has: torch makes them at the first one."""
        state: dict[str, Tensor] = self._optimizer.state[master]
        if not state:
            place = master.device if self._parts.device.has_fused_adam else torch.device("cpu")
            state["step"] = torch.zeros((), dtype=torch.float32, device=place)
            state |= {kind: torch.zeros_like(master) for kind in MOMENTS}
        return state
