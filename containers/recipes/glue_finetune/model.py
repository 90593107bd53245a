"""BERT and DistilBERT with a classifier on top, of the layers that pre-training has. No code of theirs runs.

A row is as long as its micro-batch's longest; `mask` is None where nothing is padded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.training.encoder import INITIAL_SPREAD, LAYER_NORM_EPSILON, BertShape, EncoderLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierShape:
    kind: str  # a key of weights.LAYOUTS
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    places: int
    segments: int  # 0: the model does not tell the sentences of a pair apart
    dropout: float
    attention_dropout: float
    head_dropout: float

    @property
    def layer(self) -> BertShape:
        return BertShape(layers=self.layers, hidden=self.hidden, heads=self.heads, dropout=self.dropout)


class Classifier(nn.Module):
    def __init__(self, shape: ClassifierShape, outputs: int) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings = Embeddings(shape)
        kind = EncoderLayer if shape.segments else DistilledLayer
        self.layers = nn.ModuleList(kind(shape.layer) for _ in range(shape.layers))
        for layer in self.layers:
            layer.attention_dropout = shape.attention_dropout
        self.pooler = nn.Linear(shape.hidden, shape.hidden)
        self.dropout = nn.Dropout(shape.head_dropout)
        self.classifier = nn.Linear(shape.hidden, outputs)
        for fresh in (self.pooler, self.classifier):
            nn.init.normal_(fresh.weight, std=INITIAL_SPREAD)
            nn.init.zeros_(fresh.bias)

    def forward(self, words: Tensor, segments: Tensor, mask: Tensor | None) -> Tensor:
        hidden = self.embeddings(words, segments)
        visible = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            hidden = layer(hidden, visible)
        pooled = self.pooler(hidden[:, 0])
        pooled = torch.tanh(pooled) if self.shape.segments else F.relu(pooled)
        scores: Tensor = self.classifier(self.dropout(pooled)).float()
        return scores


class Embeddings(nn.Module):
    """Embed with dense gradients, unlike pre-training: AdamW moves every word, and ranks add them up."""

    def __init__(self, shape: ClassifierShape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.hidden, padding_idx=0)
        self.places = nn.Embedding(shape.places, shape.hidden)
        self.segments = nn.Embedding(shape.segments, shape.hidden) if shape.segments else None
        self.norm = nn.LayerNorm(shape.hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, words: Tensor, segments: Tensor) -> Tensor:
        hidden = self.words(words) + self.places.weight[: words.shape[1]]
        if self.segments is not None:
            hidden = hidden + self.segments(segments)
        dropped: Tensor = self.dropout(self.norm(hidden))
        return dropped


class DistilledLayer(EncoderLayer):
    """Apply DistilBERT's layer, which has no dropout between attention and its sum."""

    def forward(self, hidden: Tensor, visible: Tensor | None) -> Tensor:
        hidden = self.attention_norm(hidden + self._attention(hidden, visible))
        wide = F.gelu(self.up(hidden))
        normed: Tensor = self.output_norm(hidden + self.dropout(self.down(wide)))
        return normed


def loss_of(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss over rows: squared error for a regression, else cross entropy, as in
    transformers."""
    if scores.shape[1] == 1:
        return F.mse_loss(scores[:, 0], labels)
    return F.cross_entropy(scores, labels.long())
