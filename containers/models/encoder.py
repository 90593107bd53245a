"""The encoder of BERT and DistilBERT with the framework's fused attention, and its heads.

A model can be built on the meta device, without memory: no weights are drawn there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.models.shapes import EncoderShape, PackedRows, cut_layers

PADDING = 0  # [PAD] in every published vocabulary

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}


class Encoder(nn.Module):
    """Turn words into hidden states; a model is an encoder with its heads beside it."""

    # How tensor parallelism cuts the matrices: the values are keys of CUTS in engines/native/assembly.py.
    # query_key_value holds all queries, then all keys, then all values, so each third is cut by itself.
    tensor_plan: ClassVar[Mapping[str, str]] = {
        "layers.*.query_key_value": "columns of 3",
        "layers.*.attention_output": "rows",
        "layers.*.up": "columns",
        "layers.*.down": "rows",
    }

    def __init__(self, shape: EncoderShape, *, has_sparse_gradient: bool) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings = Embeddings(shape, has_sparse_gradient=has_sparse_gradient)
        self.layers = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.layers))

    def encode(self, words: Tensor, segments: Tensor, mask: Tensor | None) -> Tensor:
        """Return the hidden states of each row. `mask` is None if no row is padded, which is faster."""
        return self.through_layers(self.embeddings(words, segments), mask)

    def through_layers(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        visible = None if mask is None else mask.bool()[:, None, None, :]
        for layer in self.layers.children():  # a stage's layers are a ModuleDict, whose iterator yields names
            hidden = layer(hidden, visible)
        return hidden

    def encode_packed(self, words: Tensor, segments: Tensor, rows: PackedRows) -> Tensor:
        """Return the hidden state of each token of rows that lie end to end."""
        hidden: Tensor = self.embeddings(words, segments, rows.places)
        for layer in self.layers.children():
            hidden = layer(hidden, rows)
        return hidden


class Embeddings(nn.Module):
    def __init__(self, shape: EncoderShape, *, has_sparse_gradient: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.word_rows, shape.hidden, padding_idx=PADDING)
        self.places = nn.Embedding(shape.positions, shape.hidden)
        self.segments = nn.Embedding(shape.segments, shape.hidden) if shape.segments else None
        self.norm = nn.LayerNorm(shape.hidden, eps=shape.norm_epsilon)
        self.dropout = nn.Dropout(shape.dropout)
        self.has_sparse_gradient = has_sparse_gradient

    def forward(self, words: Tensor, segments: Tensor, places: Tensor | None = None) -> Tensor:
        """Embed rows of words; for packed rows, `places` holds the position of each word in its row."""
        positions = self.places.weight[: words.shape[1]] if places is None else self.places(places)
        # The head may share the matrix of words: a dense gradient would be another one, to zero and to add.
        weight = self.words.weight
        is_sparse = self.has_sparse_gradient and weight.device.type == "cpu"
        hidden = F.embedding(words.long(), weight, PADDING, sparse=is_sparse) + positions
        if self.segments is not None:
            hidden = hidden + self.segments(segments.long())
        dropped: Tensor = self.dropout(self.norm(hidden))
        return dropped


class EncoderLayer(nn.Module):
    """Apply one encoder layer that normalises after each sum, as in the original BERT."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_dropout = shape.attention_dropout
        self.activation = ACTIVATIONS[shape.activation]
        self.query_key_value = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.attention_output = nn.Linear(shape.hidden, shape.hidden)
        self.attention_norm = nn.LayerNorm(shape.hidden, eps=shape.norm_epsilon)
        self.up = nn.Linear(shape.hidden, shape.intermediate)
        self.down = nn.Linear(shape.intermediate, shape.hidden)
        self.output_norm = nn.LayerNorm(shape.hidden, eps=shape.norm_epsilon)
        self.dropout = nn.Dropout(shape.dropout)
        # DistilBERT has no dropout between attention and its sum.
        self.attention_sum_dropout = nn.Identity() if shape.family == "distilbert" else self.dropout

    def forward(self, hidden: Tensor, mask_or_rows: Tensor | PackedRows | None) -> Tensor:
        attended = self._attention(hidden, mask_or_rows)
        hidden = self.attention_norm(hidden + self.attention_sum_dropout(attended))
        wide = self.activation(self.up(hidden))
        normed: Tensor = self.output_norm(hidden + self.dropout(self.down(wide)))
        return normed

    def _attention(self, hidden: Tensor, mask_or_rows: Tensor | PackedRows | None) -> Tensor:
        output: Tensor
        dropout = self.attention_dropout if self.training else 0.0
        # The number of heads follows from the matrix: a rank of a tensor-parallel layer has only some heads.
        if isinstance(mask_or_rows, PackedRows):
            tokens, width = hidden.shape
            together = self.query_key_value(hidden).view(tokens, 3, -1, width // self.heads)
            query, key, value = together.unbind(1)
            output = self.attention_output(mask_or_rows.attend(query, key, value, dropout))
            return output
        batch, length, width = hidden.shape
        together = self.query_key_value(hidden).view(batch, length, 3, -1, width // self.heads)
        query, key, value = together.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask_or_rows, dropout_p=dropout)
        output = self.attention_output(mixed.transpose(1, 2).reshape(batch, length, -1))
        return output


def initialise(module: nn.Module, *, spread: float = 0.02) -> None:
    """Draw a module's weights as BERT does; for nn.Module.apply."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=spread)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=spread)
        if module.padding_idx is not None:
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()
    elif reset := getattr(module, "reset_parameters", None):
        reset()


# Models with heads: BERT with its two heads of pre-training, and a classifier.
# The vocabulary head, the largest matrix of a small model, sees only the masked positions, a sixth of all.
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
        self.apply(partial(initialise, spread=shape.initial_spread))

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
        # Rows that pad the vocabulary are not words, so the loss leaves them out.
        scores = self.words(masked, self.embeddings.words.weight)[..., : self.shape.vocabulary]
        pooled = torch.tanh(self.pooler(hidden[:, 0]))
        return Losses(
            masked_words=F.cross_entropy(
                scores.flatten(0, 1).float(), labels.long().flatten(), ignore_index=NO_LABEL
            ),
            next_sentence=F.cross_entropy(self.next_sentence(pooled).float(), follows.long()),
        )

    def cut(self, stages: int) -> list[PreTrainingStage]:
        """Return the stages of a pipeline; the last one also has the word embeddings, for its head."""
        heads = ["pooler", "next_sentence", "words"]
        found = cut_layers(self, PreTrainingStage, stages, last=["embeddings", *heads])
        if stages > 1:
            found[-1].embeddings = nn.ModuleDict({"words": self.embeddings.words})
        return found


class PreTrainingStage(BertForPreTraining):
    """Turn words or hidden states into hidden states; the last stage returns the losses."""

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
    """Score the rows of a task.

    Word gradients are dense: AdamW updates every word, and ranks add up the gradients.
    """

    def __init__(self, shape: EncoderShape, outputs: int) -> None:
        super().__init__(shape, has_sparse_gradient=False)
        self.pooler = nn.Linear(shape.hidden, shape.hidden)
        self.dropout = nn.Dropout(shape.head_dropout)
        self.classifier = nn.Linear(shape.hidden, outputs)
        self.apply(partial(initialise, spread=shape.initial_spread))

    def forward(self, words: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """Return the scores of rows that lie end to end, without padding."""
        rows = PackedRows.of(lengths, words.device)
        pooled = self.pooler(self.encode_packed(words, segments, rows)[rows.begins])
        pooled = F.relu(pooled) if self.shape.family == "distilbert" else torch.tanh(pooled)
        scores: Tensor = self.classifier(self.dropout(pooled)).float()
        return scores


def classification_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss over rows as in transformers: squared error for scores, else cross entropy."""
    if scores.shape[1] == 1:
        return F.mse_loss(scores[:, 0], labels)
    return F.cross_entropy(scores, labels.long())
