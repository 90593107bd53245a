"""The interfaces of a recipe's task, which computes the losses of a micro-batch, and of its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.runtime.collective import Json

Inputs = Mapping[str, Tensor | None]


class Task(Protocol):
    """Compute the loss and other metrics of one kind of training. Each recipe has its own."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of what `forward` returns; the first, `loss`, is trained on."""

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """Return one mean over the micro-batch for each metric; the first can go backward."""


class NextTokenTask:
    """Compute a decoder's loss on the next token, at each position."""

    metrics = ("loss",)

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.metrics_of(model(inputs["words"]), inputs)

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> Tensor:
        """Run one stage of a pipeline, from words or the hidden state before it."""
        outputs: Tensor = stage(inputs["words"] if hidden is None else hidden)
        return outputs

    def metrics_of(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return the loss from what the model, or its last stage, returned."""
        labels = inputs["labels"]
        assert labels is not None, "every row has labels"
        return torch.stack([F.cross_entropy(outputs.flatten(0, 1).float(), labels.flatten())])


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    inputs: Inputs  # on the device
    seed: int  # of dropout: the micro-batch's own, so that it is the same however a batch is shared
    weight: float  # the share of this reader's rows; over all readers, weights are 1 on average


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """Hold one reader's micro-batches of one step."""

    micro_batches: Sequence[MicroBatch]
    rows: int  # of all readers
    tokens: int  # of those rows
    cursor: Json = None  # where to go on once this step is trained
