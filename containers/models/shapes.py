"""The shape of an encoder and BERT's published sizes; cutting a model into stages; attention of packed rows.

Another published size is one row of BERT_SIZES.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

# Names of activations in config.json, and ours. gelu_new and gelu_pytorch_tanh are the same formula.
ENCODER_ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
VOCABULARY = 30522  # bert-base-uncased; a vocabulary of another size gives its own number


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """Describe a BERT or DistilBERT; the defaults are those of Devlin et al. 2018."""

    family: str = "bert"  # a key of names.FAMILIES
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int = VOCABULARY
    vocabulary_rows: int | None = None  # rows of the embeddings, padded for fast kernels; None: no padding
    positions: int = 512
    segments: int = 2  # 0: the model does not distinguish the sentences of a pair
    activation: str = "gelu"  # a key of encoder.ACTIVATIONS
    norm_epsilon: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float = 0.1  # before a classifier
    initial_spread: float = 0.02  # of new weights

    @property
    def word_rows(self) -> int:
        return self.vocabulary_rows or self.vocabulary

    @property
    def identity(self) -> dict[str, Any]:
        """Return what a resumed training must share with the saved one: all but how weights were drawn."""
        named = {f"model_{name}": value for name, value in asdict(self).items()}
        del named["model_initial_spread"]
        return named


def bert(layers: int, hidden: int, heads: int) -> EncoderShape:
    """Return a shape with 4 × hidden as its intermediate size, as in all of BERT's published sizes."""
    return EncoderShape(layers=layers, hidden=hidden, heads=heads, intermediate=4 * hidden)


BERT_SIZES: Mapping[str, EncoderShape] = {
    "base": bert(12, 768, 12),
    "large": bert(24, 1024, 16),
    "1.5b": bert(48, 1600, 25),
    "tiny": bert(2, 128, 2),
}


# Cut a model into the stages of a pipeline, which share its modules under the same names.
Stage = TypeVar("Stage", bound=nn.Module)
_FIRST = ("embeddings",)


def cut_layers(
    model: nn.Module,
    kind: type[Stage],
    stages: int | Sequence[int],
    *,
    last: Collection[str],
) -> list[Stage]:
    """Return stages that share the modules of a model.

    `stages` lists the layers of each stage, or is the number of stages, with even shares. Of other modules,
    the first stage has the embeddings, and the last one those in `last`, which may be the same. A stage has
    None for a module that it lacks. `kind` is the model's class, or one with another forward.
    """
    named = list(model.layers.named_children())
    if isinstance(stages, int):  # the first ones have the remainder
        short, longer = divmod(len(named), stages)
        stages = [short + (number < longer) for number in range(stages)]
    assert sum(stages) == len(named), f"{stages} are not the model's {len(named)} layers"
    found, begin = [], 0
    for number, count in enumerate(stages):
        end = begin + count
        stage: Stage = object.__new__(kind)
        # The stage shares the modules, but not the dicts that list them, nor the model's hooks.
        stage.__dict__.update({key: copy.copy(value) for key, value in model.__dict__.items()})
        stage.layers = nn.ModuleDict(dict(named[begin:end]))
        kept = {*(_FIRST if number == 0 else ()), *(last if number == len(stages) - 1 else ())}
        for name in {*_FIRST, *last} - kept:
            setattr(stage, name, None)
        found.append(stage)
        begin = end
    return found


# Packed rows lie end to end without padding. Layers that work on tokens see all tokens at once, and attention
# works row by row, neighbours of one length together. On a processor that was faster than to pad all rows to
# the longest, or to use one mask over all rows. On a GPU the launch of many small kernels costs more: there
# attention, and nothing else, pads all rows to the longest and takes them at once.


@dataclass(frozen=True, slots=True)
class PackedRows:
    begins: Tensor  # the first token of each row
    places: Tensor  # the position of each token in its row
    runs: tuple[tuple[int, int], ...]  # neighbouring rows of one length: their number, and the length
    cells: Tensor | None = None  # the index of each token in the padded rows, if all rows attend at once

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device | None = None) -> PackedRows:
        """Describe rows whose tokens are on this device; lengths on the CPU avoid a wait for the device."""
        counts = lengths.cpu()
        begins = counts.cumsum(0) - counts
        places = torch.arange(int(counts.sum())) - begins.repeat_interleave(counts)
        runs = tuple((len(list(group)), length) for length, group in groupby(counts.tolist()))
        place = device or lengths.device
        packed = cls(begins.to(place), places.to(place), runs)
        return packed.at_once() if place.type == "cuda" and len(runs) > 1 else packed

    def at_once(self) -> PackedRows:
        """Return the same rows, with attention for all at once."""
        row = (self.places == 0).cumsum(0) - 1
        return replace(self, cells=row * self._longest + self.places)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, dropout: float, *, is_causal: bool = False
    ) -> Tensor:
        """Apply attention within each row; each tensor is tokens × heads × width of a head."""
        if self.cells is not None:
            visible = None
            if not is_causal:  # else no token sees the padding, which comes after it
                known = self._padded(query.new_ones(len(query), dtype=torch.bool), self.cells)
                visible = known[:, None, None, :]
            query, key, value = (
                self._padded(each, self.cells).transpose(1, 2) for each in (query, key, value)
            )
            mixed_rows = F.scaled_dot_product_attention(query, key, value, visible, dropout, is_causal)
            return mixed_rows.transpose(1, 2).flatten(0, 1).index_select(0, self.cells).flatten(1)
        mixed, sizes = [], [rows * length for rows, length in self.runs]
        parts = zip(*(each.split(sizes) for each in (query, key, value)), self.runs, strict=True)
        for *part, (rows, length) in parts:
            query, key, value = (each.unflatten(0, (rows, length)).transpose(1, 2) for each in part)
            mixed_rows = F.scaled_dot_product_attention(query, key, value, None, dropout, is_causal)
            mixed.append(mixed_rows.transpose(1, 2).reshape(rows * length, -1))
        return torch.cat(mixed)

    @property
    def _longest(self) -> int:
        return max(length for _, length in self.runs)

    def _padded(self, tokens: Tensor, cells: Tensor) -> Tensor:
        """Reshape tokens × … to rows × longest × …, with zeros after the end of each row."""
        rows, longest = len(self.begins), self._longest
        empty = tokens.new_zeros(rows * longest, *tokens.shape[1:])
        return empty.index_copy(0, cells, tokens).unflatten(0, (rows, longest))
