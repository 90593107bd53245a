"""A decoder as the Neuron engine traces it: every line of its forward is a module that NxD takes as a whole.

It is cut between these lines into the stages of a pipeline, so that only hidden states pass between them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.rotary import rotation

Losses = Callable[[Tensor, Tensor], Tensor]  # of scores and labels, one of each token
_WRAPPER = "_checkpoint_wrapped_module."  # what torch's activation checkpointing adds to names


class TracedLayer(nn.Module):
    """Run a layer with its own tables of rotary positions, so that only hidden states pass between stages."""

    def __init__(self, inner: nn.Module, shape: DecoderShape) -> None:
        super().__init__()
        self.inner = inner
        cosines, sines = rotation(shape, shape.positions, torch.empty(()))
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        length = hidden.shape[1]
        turned = (self.cosines[:length].to(hidden.dtype), self.sines[:length].to(hidden.dtype))
        found: Tensor = self.inner(hidden, turned)
        return found


class TracedEnd(nn.Module):
    """Score the next tokens, each rank its part of the vocabulary, and return the mean loss."""

    def __init__(self, norm: nn.Module, head: nn.Module, losses: Losses) -> None:
        super().__init__()
        self.norm, self.head = norm, head
        self._losses = losses

    def forward(self, hidden: Tensor, labels: Tensor) -> Tensor:
        scores = self.head(self.norm(hidden)).float()
        return self._losses(scores, labels).mean()


class TracedDecoder(nn.Module):
    """Compute a decoder so that every line is one node of the graph that NxD cuts into stages."""

    def __init__(self, decoder: Decoder, losses: Losses) -> None:
        super().__init__()
        assert decoder.embeddings is not None, "it is whole"
        assert decoder.norm is not None, "likewise"
        assert decoder.head is not None, "likewise"
        self.embeddings: nn.Module = decoder.embeddings
        self.layers = nn.ModuleList(TracedLayer(layer, decoder.shape) for layer in decoder.layers)
        self.end = TracedEnd(decoder.norm, decoder.head, losses)

    def forward(self, words: Tensor, labels: Tensor) -> Tensor:
        hidden: Tensor = self.embeddings(words)
        for layer in self.layers:
            hidden = layer(hidden)
        loss: Tensor = self.end(hidden, labels)
        return loss


def plain_name(name: str) -> str:
    """Return the name that a parameter has in the decoder."""
    return name.replace(_WRAPPER, "").replace(".inner.", ".").removeprefix("end.")


def named(model: nn.Module) -> nn.Module:
    """Tell each module its name in the decoder: NxD passes modules without."""
    for name, module in model.named_modules():
        module.slipway_name = plain_name(f"{name}.").removesuffix(".")
    return model
