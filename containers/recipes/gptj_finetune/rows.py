"""Rows of tokens of any length, which of their tokens count, and some of them as a model's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipway.containers.recipes.gptj_finetune.batch import Rows
from slipway.containers.training.devices import Device

# Stages of a pipeline keep buffers for each size of inputs that they have met, and tensor ranks work out anew
# what each operation sends, which takes longer than a tiny step: so few sizes there are.
CUT_MULTIPLE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRows:
    """Hold rows of one long array; rows may share tokens."""

    ids: NDArray[np.int32]
    begins: Rows
    ends: Rows
    firsts: Rows  # of each row the first token whose prediction counts

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def lengths(self) -> Rows:
        """Return how many tokens each row predicts from: all but its last."""
        return self.ends - self.begins - 1

    @property
    def scored(self) -> Rows:
        """Return how many predictions of each row count."""
        return self.ends - self.begins - self.firsts


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """Say how rows lie in a micro-batch: end to end or padded, and of which sizes micro-batches are."""

    is_packed: bool
    multiple: int = 1
    has_one_size: bool = False  # in each step

    def size_of(self, lengths: Sequence[int] | Rows) -> int:
        """Return what rows of these lengths are as wide as: all tokens, or the longest."""
        least = int(np.sum(lengths) if self.is_packed else np.max(lengths))
        return -(-least // self.multiple) * self.multiple

    def inputs(
        self, rows: TokenRows, chosen: Rows, device: Device, size: int = 0
    ) -> dict[str, Tensor | None]:
        """Return words, the places in them that count, and what comes next there."""
        lengths = rows.lengths[chosen]
        size = max(size, self.size_of(lengths))
        begins = self._begins(lengths, size)
        words = np.zeros(size if self.is_packed else size * len(chosen), dtype=np.int64)
        scored, labels = [], []
        for row, at, length in zip(chosen.tolist(), begins.tolist(), lengths.tolist(), strict=True):
            tokens = rows.ids[rows.begins[row] : rows.ends[row]]
            words[at : at + length] = tokens[:-1]
            first = int(rows.firsts[row])
            scored.append(np.arange(at + first - 1, at + length))
            labels.append(tokens[first:])
        return {
            "words": torch.from_numpy(words)
            .view(1 if self.is_packed else len(chosen), size)
            .to(device.place),
            "scored": torch.from_numpy(np.concatenate(scored)).to(device.place),
            "labels": torch.from_numpy(np.concatenate(labels).astype(np.int64)).to(device.place),
            # On the processor, which decides by them what is computed.
            "lengths": torch.from_numpy(_filled(lengths, size)) if self.is_packed else None,
        }

    def _begins(self, lengths: Rows, size: int) -> Rows:
        if self.is_packed:
            return np.cumsum(lengths) - lengths
        return np.arange(len(lengths), dtype=np.int64) * size


def _filled(lengths: Rows, size: int) -> Rows:
    """Return the lengths, and a last row of what is left of the size."""
    left = size - int(lengths.sum())
    return np.append(lengths, left) if left else lengths.copy()
