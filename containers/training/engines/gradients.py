"""Plain data parallel: weights, gradients and moments on every rank; fp32 weights next to a bf16 model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import Parameter

from slipway.containers.training.engine import (
    EngineParts,
    RestoredEngine,
    evaluated,
    metric_sums,
    refuse_cut_models,
)
from slipway.containers.training.optimizers import build_optimizer, set_rate, state_of
from slipway.containers.training.state import MOMENTS, WEIGHTS, SavedState, TensorPiece
from slipway.containers.training.task import Inputs, MicroBatch

_CLIP_EPSILON = 1e-6  # torch's and DeepSpeed's


class DataParallel(RestoredEngine):
    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._model = parts.model.to(parts.device.place, parts.device.precision).train()
        parts.device.compile_layers(self._model)
        named = self._model.named_parameters()
        self._named: dict[str, Parameter] = {name: each for name, each in named if each.requires_grad}
        self._gradients = GradientSum(self._named.values(), parts.layout.world)
        self._masters: dict[str, Tensor] = {
            name: parameter if parameter.dtype is torch.float32 else parameter.detach().float()
            for name, parameter in self._named.items()
        }
        self._optimizer = build_optimizer(
            parts.config.optimizer,
            parts.optimizer_groups(self._masters.values()),
            is_fused=parts.device.has_fused_adam,
        )

    def accumulate(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        task, device = self._parts.task, self._parts.device
        sums = metric_sums(self._parts)
        for micro_batch in micro_batches:
            device.seed(micro_batch.seed)
            means = task.forward(self._model, micro_batch.inputs)
            if micro_batch is micro_batches[-1]:
                self._parts.watch.wait_begins()
                self._gradients.begin_last()
            (means[0] * micro_batch.weight).backward()
            sums += means.detach() * micro_batch.weight
            device.submit()
        return sums

    def step(self, rate: float) -> float:
        self._gradients.finish()
        norm = float(self._gradients.norm())
        if math.isfinite(norm):
            clip = self._parts.config.clip_norm / (norm + _CLIP_EPSILON)
            if clip < 1:
                self._gradients.scale(clip)
            set_rate(self._optimizer, rate)
            for name, parameter in self._named.items():
                self._masters[name].grad = self._gradients.views[parameter]
            self._optimizer.step()
            self._optimizer.zero_grad()  # lets go of the views; autograd would add to them
            self._publish_masters()
            self._parts.device.submit()
        return norm

    def evaluate(self, inputs: Inputs) -> Tensor:
        return evaluated(self._parts.task, self._model, inputs)

    def pieces(self) -> Iterator[TensorPiece]:
        """Yield this rank's share of the whole tensors; every rank has them all."""
        yield from self.pieces_left_out(self._parts.rank)
        yield from self._pieces_of(list(self._masters)[self._parts.rank :: self._parts.layout.world])

    def _load(self, saved: SavedState, kinds: Collection[str], steps: int) -> None:
        saved.copy_to(piece for piece in self._pieces_of(self._masters) if piece.kind in kinds)
        for master in self._masters.values():
            self._moments(master)["step"].fill_(steps)
        self._publish_masters()

    def _publish_masters(self) -> None:
        if self._parts.device.precision is not torch.float32:
            with torch.no_grad():
                torch._foreach_copy_(list(self._named.values()), list(self._masters.values()))

    def _pieces_of(self, names: Iterable[str]) -> Iterator[TensorPiece]:
        for name in names:
            held = {WEIGHTS: self._masters[name], **self._moments(self._masters[name])}
            for kind in (WEIGHTS, *MOMENTS):
                yield TensorPiece.whole(kind, name, held[kind])

    def _moments(self, master: Tensor) -> dict[str, Tensor]:
        return state_of(self._optimizer, master, is_fused=self._parts.device.has_fused_adam)


def build(parts: EngineParts) -> DataParallel:
    refuse_cut_models(parts, "plain")
    return DataParallel(parts)


# Gradients are summed over micro-batches in fp32, then over ranks during the last backward pass.
# Buffers and their order are fixed. DistributedDataParallel regroups them after the first step, so a resumed
# run adds in another order than an uninterrupted one, and differs in the last bit.
BUFFER_ELEMENTS = 16 << 20  # 64 MB of fp32: enough to keep a network busy, small enough to start early


class GradientSum:
    """Sum gradients over micro-batches and ranks.

    `views[p]` is where the gradient of parameter p adds up, in p's shape; `p.grad` stays empty.
    """

    def __init__(self, parameters: Iterable[Parameter], world: int) -> None:
        self._world = world
        self._works: list[Any] = []
        self._is_last = False
        self.buffers: list[Tensor] = []
        self.views: dict[Parameter, Tensor] = {}
        self._buffer_of: dict[Parameter, int] = {}
        # From the last parameter to the first, the order in which backward reaches them.
        for number, group in enumerate(_grouped(list(parameters)[::-1])):
            if world > 1:
                sizes = [parameter.numel() for parameter in group]
                self.buffers.append(torch.zeros(sum(sizes), device=group[0].device))
                views = list(self.buffers[-1].split(sizes))
            else:  # autograd's own tensors serve: nothing is sent, and no copy is needed
                views = [torch.zeros_like(parameter, dtype=torch.float32) for parameter in group]
            for parameter, view in zip(group, views, strict=True):
                self.views[parameter] = view.view_as(parameter)
                self._buffer_of[parameter] = number
                parameter.register_post_accumulate_grad_hook(self._arrived)
        self._stale = set(self.views)  # what holds the step before: overwritten, which is cheaper than zeroed
        self._missing: list[int] = []

    def begin_last(self) -> None:
        """Announce the last backward of the step: it completes the sums, so they may be all-reduced."""
        self._is_last = True
        members = list(self._buffer_of.values())
        self._missing = [members.count(number) for number in range(len(self.buffers))]

    def finish(self) -> None:
        """Wait until the views hold the mean over ranks, the same bits on each."""
        for parameter in self._stale:  # no micro-batch reached it
            self.views[parameter].zero_()
        self._is_last = False
        self._stale = set(self.views)
        if self._world > 1:
            self._send(len(self.buffers))
            for work in self._works:
                work.wait()
            self._works.clear()
            torch._foreach_div_(self.buffers, float(self._world))

    def norm(self) -> Tensor:
        return torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(self._sums()))))

    def scale(self, factor: float) -> None:
        torch._foreach_mul_(self._sums(), factor)

    def _sums(self) -> list[Tensor]:
        return self.buffers or list(self.views.values())

    def _arrived(self, parameter: Parameter) -> None:
        assert parameter.grad is not None, "it has just arrived"
        if parameter not in self._stale:
            self.views[parameter].add_(parameter.grad)
        elif self._world > 1:
            self.views[parameter].copy_(parameter.grad)
        else:
            self.views[parameter] = parameter.grad.float()
        self._stale.discard(parameter)
        parameter.grad = None
        if self._is_last and self._world > 1:
            self._missing[self._buffer_of[parameter]] -= 1
            ready = next((at for at, missing in enumerate(self._missing) if missing), len(self._missing))
            self._send(ready)

    def _send(self, until: int) -> None:
        """Send groups in order, not as they complete: all ranks must send the same one first."""
        for buffer in self.buffers[len(self._works) : until]:
            self._works.append(distributed.all_reduce(buffer, async_op=True))


def _grouped(parameters: Sequence[Parameter]) -> list[list[Parameter]]:
    groups: list[list[Parameter]] = [[]]
    elements = 0
    for parameter in parameters:
        if elements + parameter.numel() > BUFFER_ELEMENTS and groups[-1]:
            groups.append([])
            elements = 0
        groups[-1].append(parameter)
        elements += parameter.numel()
    return groups
