"""What GPT-NeoX pre-training loses: the next token, at each position."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.training.task import Inputs


class NextTokenTask:
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
