"""What an encoder's numbers are: BERT's published sizes, and the names that config.json has for the rest.

Another published size is one row of BERT_SIZES. No framework here: what only counts needs none.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

# Names of config.json to ours. What TinyBERT and others call gelu_new is the formula of gelu_pytorch_tanh.
ENCODER_ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
VOCABULARY = 30522  # bert-base-uncased; a vocabulary of another size gives its own number


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """Describe a BERT or DistilBERT; what is not said is as Devlin et al. 2018 have it."""

    family: str = "bert"  # a key of names.PARAMETER_NAMES
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int = VOCABULARY
    vocabulary_rows: int | None = None  # of the embeddings, for kernels that like multiples; None: one each
    positions: int = 512
    segments: int = 2  # 0: the model does not tell the sentences of a pair apart
    activation: str = "gelu"  # a key of encoder.ACTIVATIONS
    norm_epsilon: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float = 0.1  # before a classifier

    @property
    def word_rows(self) -> int:
        return self.vocabulary_rows or self.vocabulary


def bert(layers: int, hidden: int, heads: int) -> EncoderShape:
    """Return a shape whose layers are four times as wide inside, as all of BERT's published sizes are."""
    return EncoderShape(layers=layers, hidden=hidden, heads=heads, intermediate=4 * hidden)


BERT_SIZES: Mapping[str, EncoderShape] = {
    "base": bert(12, 768, 12),
    "large": bert(24, 1024, 16),
    "1.5b": bert(48, 1600, 25),
    "tiny": bert(2, 128, 2),
}


# Cut a model into the stages of a pipeline: its own modules, under the names that they have in it.
Stage = TypeVar("Stage", bound=nn.Module)


def cut_layers(
    model: nn.Module,
    kind: type[Stage],
    stages: int | Sequence[int],
    *,
    first: Collection[str],
    last: Collection[str],
) -> list[Stage]:
    """Return stages that share the modules of a model: as many layers each as `stages` says, or, of so many
    stages, dealt evenly and the first ones more.

    Of the modules beside the layers, `first` stay in the first stage and `last` in the last; both may name
    one. A stage has None in place of what it lacks. `kind` is the model's class, or one that only computes
    otherwise.
    """
    named = list(model.layers.named_children())
    counts = even_counts(len(named), stages) if isinstance(stages, int) else stages
    assert sum(counts) == len(named), f"{counts} are not the model's {len(named)} layers"
    found, begin = [], 0
    for number, count in enumerate(counts):
        end = begin + count
        stage: Stage = object.__new__(kind)
        # Modules are the model's own; what they are listed in is not, nor are the hooks on the whole.
        stage.__dict__.update({key: copy.copy(value) for key, value in model.__dict__.items()})
        stage.layers = nn.ModuleDict(dict(named[begin:end]))
        kept = {*(first if number == 0 else ()), *(last if number == len(counts) - 1 else ())}
        for name in {*first, *last} - kept:
            setattr(stage, name, None)
        found.append(stage)
        begin = end
    return found


def even_counts(layers: int, stages: int) -> tuple[int, ...]:
    """Return the layers of each stage where all have as many, the first ones one more."""
    short, longer = divmod(layers, stages)
    return tuple(short + (number < longer) for number in range(stages))


# Rows laid end to end without padding: what works on tokens sees them all at once, attention row by row.
# Neighbours of one length attend together. On a processor that beat padding to the longest row, and one mask
# over all rows, whose zeros are computed too. A GPU waits for whoever starts its kernels: there all rows
# attend at once, each padded to the longest, for attention alone.


@dataclass(frozen=True, slots=True)
class PackedRows:
    begins: Tensor  # the first token of each row
    places: Tensor  # of each token in its row
    runs: tuple[tuple[int, int], ...]  # of neighbours: how many, and their length
    cells: Tensor | None = None  # of each token, where all rows attend at once, one below the other

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device | None = None) -> PackedRows:
        """Describe rows whose tokens are on this device; it is counted on the processor, which must know."""
        counts = lengths.cpu()
        begins = counts.cumsum(0) - counts
        places = torch.arange(int(counts.sum())) - begins.repeat_interleave(counts)
        runs = tuple((len(list(group)), length) for length, group in groupby(counts.tolist()))
        place = device or lengths.device
        packed = cls(begins.to(place), places.to(place), runs)
        return packed.at_once() if place.type == "cuda" and len(runs) > 1 else packed

    def at_once(self) -> PackedRows:
        """Return the same rows, all of which attend at once."""
        row = (self.places == 0).cumsum(0) - 1
        return replace(self, cells=row * self._longest + self.places)

    def attend(self, together: Tensor, dropout: float) -> Tensor:
        """Mix values among the tokens of each row; `together` is tokens × 3 × heads × a head's width."""
        if self.cells is not None:
            known = self._padded(together.new_ones(len(together), dtype=torch.bool), self.cells)
            query, key, value = self._padded(together, self.cells).permute(2, 0, 3, 1, 4)
            visible = known[:, None, None, :]
            own = F.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=dropout)
            return _tokens_of(own, self.cells)
        mixed = []
        for part, (rows, length) in zip(
            together.split([rows * length for rows, length in self.runs]), self.runs, strict=True
        ):
            query, key, value = part.view(rows, length, *together.shape[1:]).permute(2, 0, 3, 1, 4)
            own = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
            mixed.append(own.transpose(1, 2).reshape(rows * length, -1))
        return torch.cat(mixed)

    def attend_backwards(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """Mix values among each token's own row up to itself; each is tokens × heads × a head's width."""
        if self.cells is not None:  # no token sees the padding, which is behind it
            together = self._padded(torch.stack((query, key, value), dim=1), self.cells)
            queries, keys, values = together.permute(2, 0, 3, 1, 4)
            own = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=True)
            return _tokens_of(own, self.cells)
        mixed, sizes = [], [rows * length for rows, length in self.runs]
        parts = zip(query.split(sizes), key.split(sizes), value.split(sizes), self.runs, strict=True)
        for *part, (rows, length) in parts:
            queries, keys, values = (each.unflatten(0, (rows, length)).transpose(1, 2) for each in part)
            own = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=True)
            mixed.append(own.transpose(1, 2).reshape(rows * length, -1))
        return torch.cat(mixed)

    @property
    def _longest(self) -> int:
        return max(length for _, length in self.runs)

    def _padded(self, tokens: Tensor, cells: Tensor) -> Tensor:
        """Return tokens × … as rows × the longest × …, with zeros behind each row."""
        rows, longest = len(self.begins), self._longest
        empty = tokens.new_zeros(rows * longest, *tokens.shape[1:])
        return empty.index_copy(0, cells, tokens).unflatten(0, (rows, longest))


def _tokens_of(own: Tensor, cells: Tensor) -> Tensor:
    """Return rows × heads × the longest × width as tokens × all heads."""
    return own.transpose(1, 2).flatten(0, 1).index_select(0, cells).flatten(1)
