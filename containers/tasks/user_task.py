"""What a user's own task loses: its model on the inputs, and its loss on what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.batches import INPUTS, TARGETS, WHOLE, part_of
from slipway.containers.training.task import Inputs


@dataclass(frozen=True, slots=True)
class UserTask:
    """Train a model on a pair (`loss(model(inputs), targets)`), or on a batch that is both."""

    loss: Callable[..., object]
    metrics: ClassVar[tuple[str, ...]] = ("loss",)

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.metrics_of(self.run_stage(model, None, inputs), inputs)

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> object:
        if hidden is not None:
            return stage(hidden)
        given = part_of(inputs, INPUTS)
        given = part_of(inputs, WHOLE) if given is None else given
        return stage(**given) if isinstance(given, Mapping) else stage(given)

    def metrics_of(self, outputs: object, inputs: Inputs) -> Tensor:
        targets = part_of(inputs, TARGETS)
        loss = self.loss(outputs, part_of(inputs, WHOLE) if targets is None else targets)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise Refusal(
                f"the loss returns {type(loss).__name__}, and one number is wanted",
                hint="return the mean over the rows, as a tensor",
            )
        return torch.atleast_1d(loss.squeeze())
