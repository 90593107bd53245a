"""In which order an epoch's rows come: chunks in a random order, and the rows of each in a random order.

A function of seed and epoch alone, so a place in the epoch is one number whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.tokens.rng import permutation

OF_CHUNKS, OF_ROWS = 5, 6


@dataclass(frozen=True, slots=True)
class Stretch:
    """Select rows of one chunk: of shard `shard`, from row `begin` on, in this order."""

    shard: int
    begin: int
    rows: NDArray[np.int64]


class EpochOrder:
    def __init__(self, shard_rows: Sequence[int], chunk_rows: int, seed: int, epoch: int) -> None:
        self._seed, self._epoch, self._chunk_rows = seed, epoch, chunk_rows
        counts = [-(-rows // chunk_rows) for rows in shard_rows]
        shards = np.repeat(np.arange(len(counts)), counts)
        begins = np.concatenate([np.arange(count) * chunk_rows for count in counts])
        sizes = np.minimum(np.repeat(shard_rows, counts) - begins, chunk_rows)
        self._order = permutation(len(shards), seed, OF_CHUNKS, epoch)
        self._shards, self._begins, self._sizes = shards, begins, sizes[self._order]
        self._ends = np.cumsum(self._sizes)

    def stretches(self, start: int, stop: int) -> Iterator[Stretch]:
        """Yield the rows from place `start` to place `stop` of the epoch."""
        place = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            end, size, chunk = int(self._ends[place]), int(self._sizes[place]), int(self._order[place])
            rows = permutation(size, self._seed, OF_ROWS, self._epoch, chunk)
            first = start - (end - size)
            taken = rows[first : first + stop - start]
            yield Stretch(int(self._shards[chunk]), int(self._begins[chunk]), taken)
            start += len(taken)
            place += 1
