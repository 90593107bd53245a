"""Gradients: summed over micro-batches in fp32, then over ranks while the last one is still going back.

Buffers and their order are fixed, unlike DistributedDataParallel's, which regroups after the first step: a
resumed run then adds in another order than one that went on, and differs in the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import Parameter

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
        # From the last to the first, the order in which backward reaches them.
        for number, group in enumerate(_grouped(list(parameters)[::-1])):
            self._add_group(number, group)
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

    def _add_group(self, number: int, group: Sequence[Parameter]) -> None:
        """Set up one group of parameters. Alone, autograd's own tensors serve: nothing is sent and no copy
        is needed."""
        if self._world > 1:
            sizes = [parameter.numel() for parameter in group]
            self.buffers.append(torch.zeros(sum(sizes), device=group[0].device))
            views = list(self.buffers[-1].split(sizes))
        else:
            views = [torch.zeros_like(parameter, dtype=torch.float32) for parameter in group]
        for parameter, view in zip(group, views, strict=True):
            self.views[parameter] = view.view_as(parameter)
            self._buffer_of[parameter] = number
            parameter.register_post_accumulate_grad_hook(self._arrived)

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
