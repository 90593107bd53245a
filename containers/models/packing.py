"""Rows laid end to end without padding: what works on tokens sees them all at once, attention row by row.

Neighbours of one length attend together. On a processor that beat padding to the longest row, and one mask
over all rows, whose zeros are computed too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it


@dataclass(frozen=True, slots=True)
class PackedRows:
    begins: Tensor  # the first token of each row
    places: Tensor  # of each token in its row
    runs: tuple[tuple[int, int], ...]  # of neighbours: how many, and their length

    @classmethod
    def of(cls, lengths: Tensor) -> PackedRows:
        ends = lengths.cumsum(0)
        begins = ends - lengths
        places = torch.arange(int(ends[-1]), device=lengths.device) - begins.repeat_interleave(lengths)
        runs = tuple((len(list(group)), length) for length, group in groupby(lengths.tolist()))
        return cls(begins, places, runs)

    def attend(self, together: Tensor, dropout: float) -> Tensor:
        """Mix values among the tokens of each row; `together` is tokens × 3 × heads × a head's width."""
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
        mixed, sizes = [], [rows * length for rows, length in self.runs]
        parts = zip(query.split(sizes), key.split(sizes), value.split(sizes), self.runs, strict=True)
        for *part, (rows, length) in parts:
            queries, keys, values = (each.unflatten(0, (rows, length)).transpose(1, 2) for each in part)
            own = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=True)
            mixed.append(own.transpose(1, 2).reshape(rows * length, -1))
        return torch.cat(mixed)
