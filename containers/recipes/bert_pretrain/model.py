"""BERT for pre-training: the encoder of Devlin et al. 2018 with both heads, fast where training spends time.

Attention is the framework's fused kernel, and the vocabulary head sees the masked positions only: they are
a sixth of the tokens, and that head is the largest matrix of a small model. A new size is one row of SIZES.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.training.encoder import INITIAL_SPREAD, LAYER_NORM_EPSILON, BertShape, EncoderLayer

LONGEST_SEQUENCE = 512
NO_LABEL = 0  # the reference's padding of masked_lm_ids: [PAD] is never predicted


SIZES: Mapping[str, BertShape] = {
    "base": BertShape(layers=12, hidden=768, heads=12),
    "large": BertShape(layers=24, hidden=1024, heads=16),
    "1.5b": BertShape(layers=48, hidden=1600, heads=25),
    "tiny": BertShape(layers=2, hidden=128, heads=2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    masked_words: Tensor
    next_sentence: Tensor

    @property
    def total(self) -> Tensor:
        return self.masked_words + self.next_sentence


class BertForPreTraining(nn.Module):
    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings = Embeddings(shape)
        self.layers = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.layers))
        self.pooler = nn.Linear(shape.hidden, shape.hidden)
        self.next_sentence = nn.Linear(shape.hidden, 2)
        self.words = WordHead(shape)
        self.apply(_initialise)

    def forward(
        self,
        words: Tensor,
        segments: Tensor,
        mask: Tensor | None,
        positions: Tensor,
        labels: Tensor,
        follows: Tensor,
    ) -> Losses:
        """Return the losses of one micro-batch.

        `positions` and `labels` are batch × predictions, padded with zeros; `follows` is batch. `mask` is
        None if nothing is padded: the fused kernels are faster without one.
        """
        hidden = self.embeddings(words, segments)
        visible = None if mask is None else mask.bool()[:, None, None, :]
        for layer in self.layers:
            hidden = layer(hidden, visible)
        masked = hidden.gather(1, positions.long()[..., None].expand(-1, -1, hidden.shape[-1]))
        scores = self.words(masked, self.embeddings.words.weight)
        pooled = torch.tanh(self.pooler(hidden[:, 0]))
        return Losses(
            masked_words=F.cross_entropy(
                scores.flatten(0, 1).float(), labels.long().flatten(), ignore_index=NO_LABEL
            ),
            next_sentence=F.cross_entropy(self.next_sentence(pooled).float(), follows.long()),
        )


class Embeddings(nn.Module):
    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.hidden, padding_idx=0)
        self.places = nn.Embedding(LONGEST_SEQUENCE, shape.hidden)
        self.segments = nn.Embedding(2, shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, words: Tensor, segments: Tensor) -> Tensor:
        places = self.places.weight[: words.shape[1]]
        hidden = self._look_up(words) + self.segments(segments.long()) + places
        dropped: Tensor = self.dropout(self.norm(hidden))
        return dropped

    def _look_up(self, words: Tensor) -> Tensor:
        """Look up words with sparse gradients on CPU: a dense one is a second matrix of all words, zeroed
        and added."""
        weight = self.words.weight
        return F.embedding(words.long(), weight, self.words.padding_idx, sparse=weight.device.type == "cpu")


class WordHead(nn.Module):
    """Score the vocabulary with the matrix of the word embeddings."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.transform = nn.Linear(shape.hidden, shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.transform(hidden))), embedding, self.bias)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=INITIAL_SPREAD)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_SPREAD)
        if module.padding_idx is not None:
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()
