"""A decoder that begins with published weights: each rank reads its own boxes of them, and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slipway.containers.models.decoder import Decoder
from slipway.containers.models.published import PublishedWeights
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.errors import Refusal


class PublishedDecoder(Decoder):
    """Begin with published weights instead of drawn ones."""

    published: PublishedWeights

    def published_part(self, name: str, size: torch.Size, box: Box) -> Tensor:
        """Read a box of one parameter, and nothing else."""
        return self.published.read(name, box, tuple(size))


def refuse_missing(model: nn.Module, published: PublishedWeights) -> None:
    """Raise Refusal if the folder lacks a parameter of the model, or has it in another shape."""
    for name, parameter in model.named_parameters():
        if problem := published.problem(name, tuple(parameter.shape)):
            raise Refusal(f"{published.place} {problem}", hint="give weights and config.json of one model")
