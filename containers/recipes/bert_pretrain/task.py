"""What BERT pre-training loses: masked words and next sentences (Devlin et al. 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slipway.containers.models.heads import Losses
from slipway.containers.training.task import Inputs


class BertTask:
    metrics = ("loss", "masked_words", "next_sentence")

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.metrics_of(model(**inputs), inputs)

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> Tensor | Losses:
        """Run one stage of a pipeline, from words or the hidden state before it."""
        outputs: Tensor | Losses = stage(hidden, inputs)
        return outputs

    def metrics_of(self, outputs: Losses, inputs: Inputs) -> Tensor:
        """Return the metrics from what the model, or its last stage, returned."""
        return torch.stack((outputs.total, outputs.masked_words, outputs.next_sentence))
