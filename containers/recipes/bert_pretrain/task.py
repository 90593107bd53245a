"""What BERT pre-training loses: masked words and next sentences (Devlin et al. 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slipway.containers.models.heads import Losses
from slipway.containers.training.task import Inputs


class BertTask:
    metrics = ("loss", "masked_words", "next_sentence")

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        losses: Losses = model(**inputs)
        return torch.stack((losses.total, losses.masked_words, losses.next_sentence))
