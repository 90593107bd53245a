"""Functions as a user writes them: they make a tiny model, its batches and its loss."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it
from torch.utils.data import DataLoader, TensorDataset

from slipway.containers.models.decoder import Decoder, DecoderShape, build_decoder

WORDS = 40
SHAPE = DecoderShape(
    family="neox",
    layers=4,
    hidden=16,
    heads=4,
    intermediate=32,
    vocabulary=WORDS,
    rotary_dimensions=4,
    has_attention_bias=True,
    initial_spread=0.1,
)


def decoder(arguments: Mapping[str, object] | None = None) -> Decoder:
    """Make a decoder, which every technique can cut."""
    del arguments
    return build_decoder(SHAPE, seed=1)


def perceptron(arguments: Mapping[str, int] | None = None) -> nn.Sequential:
    """Make a model that uses nothing of Slipway."""
    hidden = (arguments or {}).get("hidden", 16)
    return nn.Sequential(
        nn.Linear(8, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 3)
    )


def texts(rows: int = 8, count: int = 24) -> DataLoader[tuple[Tensor, ...]]:
    words = torch.randint(1, WORDS, (count, 9), generator=torch.Generator().manual_seed(5))
    return DataLoader(TensorDataset(words[:, :-1], words[:, 1:]), batch_size=rows, shuffle=True)


def points(rows: int = 8, count: int = 30) -> DataLoader[tuple[Tensor, ...]]:
    draws = torch.Generator().manual_seed(6)
    given = torch.randn(count, 8, generator=draws)
    return DataLoader(TensorDataset(given, given[:, :3].argmax(1)), batch_size=rows, shuffle=True)


def next_word(scores: Tensor, words: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1).float(), words.flatten())


def class_loss(scores: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(scores, classes)


def too_large() -> nn.Module:
    raise torch.OutOfMemoryError("tried to allocate 80.00 GiB")
