"""What stands on an encoder: BERT's two heads of pre-training, and a classifier.

The vocabulary head sees the masked positions only: they are a sixth of the tokens, and that head is the
largest matrix of a small model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.models.encoder import ACTIVATIONS, Encoder, initialise
from slipway.containers.models.packing import PackedRows
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.models.stages import cut_layers

NO_LABEL = 0  # the reference's padding of masked_lm_ids: [PAD] is never predicted


class Losses(NamedTuple):
    masked_words: Tensor
    next_sentence: Tensor

    @property
    def total(self) -> Tensor:
        return self.masked_words + self.next_sentence


class BertForPreTraining(Encoder):
    def __init__(self, shape: EncoderShape) -> None:
        super().__init__(shape, has_sparse_gradient=True)
        self.pooler = nn.Linear(shape.hidden, shape.hidden)
        self.next_sentence = nn.Linear(shape.hidden, 2)
        self.words = WordHead(shape)
        self.apply(initialise)

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

        `positions` and `labels` are batch × predictions, padded with zeros; `follows` is batch.
        """
        return self.losses(self.encode(words, segments, mask), positions, labels, follows)

    def losses(self, hidden: Tensor, positions: Tensor, labels: Tensor, follows: Tensor) -> Losses:
        masked = hidden.gather(1, positions.long()[..., None].expand(-1, -1, hidden.shape[-1]))
        # Rows that pad the vocabulary are no words: they take no part in the loss.
        scores = self.words(masked, self.embeddings.words.weight)[..., : self.shape.vocabulary]
        pooled = torch.tanh(self.pooler(hidden[:, 0]))
        return Losses(
            masked_words=F.cross_entropy(
                scores.flatten(0, 1).float(), labels.long().flatten(), ignore_index=NO_LABEL
            ),
            next_sentence=F.cross_entropy(self.next_sentence(pooled).float(), follows.long()),
        )

    def cut(self, stages: int) -> list[PreTrainingStage]:
        """Return the stages of a pipeline; the last one has the word embeddings too, which its head uses."""
        heads = ["pooler", "next_sentence", "words"]
        found = cut_layers(self, PreTrainingStage, stages, first=["embeddings"], last=["embeddings", *heads])
        if stages > 1:
            found[-1].embeddings = nn.ModuleDict({"words": self.embeddings.words})
        return found


class PreTrainingStage(BertForPreTraining):
    """Go from words or hidden states to hidden states, or to the losses."""

    def forward(  # type: ignore[override]  # it is called by whoever cut it
        self, hidden: Tensor | None, inputs: Mapping[str, Tensor]
    ) -> Tensor | Losses:
        if hidden is None:
            hidden = self.embeddings(inputs["words"], inputs["segments"])
        hidden = self.through_layers(hidden, inputs["mask"])
        if self.pooler is None:
            return hidden
        return self.losses(hidden, *(inputs[name] for name in ("positions", "labels", "follows")))


class WordHead(nn.Module):
    """Score the vocabulary with the matrix of the word embeddings."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.transform = nn.Linear(shape.hidden, shape.hidden)
        self.activation = ACTIVATIONS[shape.activation]
        self.norm = nn.LayerNorm(shape.hidden, eps=shape.norm_epsilon)
        self.bias = nn.Parameter(torch.empty(shape.word_rows))

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.bias)

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        return F.linear(self.norm(self.activation(self.transform(hidden))), embedding, self.bias)


class Classifier(Encoder):
    """Score the rows of a task. Gradients of words are dense: AdamW moves every word, and ranks add them
    up."""

    def __init__(self, shape: EncoderShape, outputs: int) -> None:
        super().__init__(shape, has_sparse_gradient=False)
        self.pooler = nn.Linear(shape.hidden, shape.hidden)
        self.dropout = nn.Dropout(shape.head_dropout)
        self.classifier = nn.Linear(shape.hidden, outputs)
        self.apply(initialise)

    def forward(self, words: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """Return the scores of rows that lie end to end, so that nothing is computed of padding."""
        rows = PackedRows.of(lengths)
        pooled = self.pooler(self.encode_packed(words, segments, rows)[rows.begins])
        pooled = F.relu(pooled) if self.shape.family == "distilbert" else torch.tanh(pooled)
        scores: Tensor = self.classifier(self.dropout(pooled)).float()
        return scores


def classification_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss over rows: squared error for a regression, else cross entropy, as in
    transformers."""
    if scores.shape[1] == 1:
        return F.mse_loss(scores[:, 0], labels)
    return F.cross_entropy(scores, labels.long())
