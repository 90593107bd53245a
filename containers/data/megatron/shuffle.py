"""A permutation that is asked place by place: no table, in the same memory for any count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.tokens.rng import Stream

ROUNDS = 4


class Shuffle:
    """Permute 0..count-1 in an order that the words decide, the same on every machine.

    Each round is a bijection of the numbers of so many bits: add, multiply by an odd number, and fold the
    upper half into the lower one. What lands outside 0..count-1 is permuted again until it lands inside; at
    least half of all do at once.
    """

    def __init__(self, count: int, *words: int) -> None:
        bits = max(2, (count - 1).bit_length())
        stream = Stream(*words)
        self._count = np.uint64(count)
        self._mask, self._half = np.uint64((1 << bits) - 1), np.uint64((bits + 1) // 2)
        self._rounds = [(np.uint64(stream.draw()), np.uint64(stream.draw() | 1)) for _ in range(ROUNDS)]

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what stands at these places, each from 0 to count-1."""
        found = self._mixed(places.astype(np.uint64))
        while len(outside := np.flatnonzero(found >= self._count)):
            found[outside] = self._mixed(found[outside])
        return found.astype(np.int64)

    def _mixed(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        with np.errstate(over="ignore"):
            for added, factor in self._rounds:
                values = (values + added) * factor & self._mask
                values ^= values >> self._half
        return values
