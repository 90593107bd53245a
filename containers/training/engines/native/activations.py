"""Decide what each layer keeps for its backward pass, and keep it on the device or in host memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

from slipway.containers.training.engines.native.assembly import Draws, local_of

_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Say what layers keep between forward and backward: all, only their inputs, or as much as fits."""

    recomputes: bool = False  # keep a layer's input only, and go forward again
    budget_bytes: int | None = None  # of this rank: keep what fits, and compute the rest again
    offloads: bool = False
    smallest_offloaded: int = 1 << 14  # bytes: moving less costs more than it frees

    @classmethod
    def of(cls, word: str, *, offloads: bool) -> Keeping:
        """Decode `none`, `layer`, or `budget:` and how many GiB activations may take on each rank."""
        _, _, gib = word.partition(":")
        budget = int(float(gib) * _GIB) if gib else None
        return cls(recomputes=word != "none", budget_bytes=budget, offloads=offloads)


class LayerMemory:
    """Run the layers of one rank and decide what each keeps."""

    def __init__(self, keeping: Keeping, draws: Draws) -> None:
        self._keeping = keeping
        self._draws = draws
        self.in_flight = 1  # micro-batches that are between forward and backward at once
        self._layers = 0
        self._kept_whole: int | None = None if keeping.budget_bytes is not None else 0

    def take(self, layer: nn.Module, number: int) -> None:
        """Make a layer keep what was decided; `number` is its number in the whole model."""
        place, run = self._layers, layer.forward
        self._layers += 1

        def forward(*arguments: Tensor) -> Tensor:
            micro_batch = self._draws.micro_batch

            # A later recomputation must draw the same dropout, whichever micro-batch runs by then.
            def seeded(*again: Tensor) -> Tensor:
                self._draws.begin(micro_batch, number + 1)
                found: Tensor = run(*again)
                return found

            output = self._run(layer, place, seeded, arguments)
            self._draws.begin(micro_batch, number + 2)
            return output

        layer.forward = forward

    def _run(
        self,
        layer: nn.Module,
        place: int,
        forward: Callable[..., Tensor],
        arguments: tuple[Tensor, ...],
    ) -> Tensor:
        if not torch.is_grad_enabled():
            return forward(*arguments)
        if self._kept_whole is None and self._keeping.recomputes:
            return self._measure(layer, forward, arguments)
        elsewhere: AbstractContextManager[object] = nullcontext()
        if self._keeping.offloads:
            to_host = partial(_to_host, _storages(layer), self._keeping.smallest_offloaded)
            elsewhere = saved_tensors_hooks(to_host, _from_host)
        with elsewhere:
            if self._keeping.recomputes and place >= (self._kept_whole or 0):
                return checkpoint(forward, *arguments, use_reentrant=False, preserve_rng_state=False)
            return forward(*arguments)

    def _measure(
        self, layer: nn.Module, forward: Callable[..., Tensor], arguments: tuple[Tensor, ...]
    ) -> Tensor:
        """Run the first layer of all and see what it keeps; the others are as large."""
        found, own = {}, _storages(layer)

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        with saved_tensors_hooks(note, lambda tensor: tensor):
            output = forward(*arguments)
        # So many layers may keep `whole` bytes if all others keep `least`.
        whole, least = sum(found.values()), arguments[0].nbytes
        assert self._keeping.budget_bytes is not None, "only a budget is measured for"
        free = self._keeping.budget_bytes / self.in_flight - self._layers * least
        self._kept_whole = max(0, min(self._layers, int(free // max(1, whole - least))))
        return output


def _storages(layer: nn.Module) -> set[int]:
    """Return where the layer's weights lie now: these stay, whoever saves them."""
    tensors = (getattr(parameter, "_local_tensor", parameter) for parameter in layer.parameters())
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


@dataclass(frozen=True, slots=True)
class InHostMemory:
    """Hold a tensor's copy in host memory. It is a copy on the CPU, too, so that tests take the same path."""

    copy: Tensor
    place: torch.device
    spread: tuple[Any, ...] | None  # of a distributed tensor: its mesh, placements, shape and strides

    def back(self) -> Tensor:
        tensor = self.copy.to(self.place, non_blocking=True)
        if self.spread is None:
            return tensor
        mesh, placements, shape, stride = self.spread
        with torch.no_grad():
            return DTensor.from_local(tensor, mesh, placements, run_check=False, shape=shape, stride=stride)


def _to_host(own: set[int], smallest: int, tensor: Tensor) -> Tensor | InHostMemory:
    local = local_of(tensor.detach())
    if local.nbytes < smallest or local.untyped_storage().data_ptr() in own:
        return tensor
    copy = torch.empty_like(local, device="cpu", pin_memory=local.device.type != "cpu")
    spread = None
    if isinstance(tensor, DTensor):
        spread = (tensor.device_mesh, tensor.placements, tensor.shape, tensor.stride())
    return InHostMemory(copy.copy_(local, non_blocking=True), local.device, spread)


def _from_host(packed: Tensor | InHostMemory) -> Tensor:
    return packed.back() if isinstance(packed, InHostMemory) else packed
