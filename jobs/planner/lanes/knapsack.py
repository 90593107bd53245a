"""Fills one lane with the most valuable jobs: a knapsack over coarse time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Knapsack:
    """Solves knapsacks of one capacity, exactly, in buffers that are used again."""

    def __init__(self, room: int, items: int) -> None:
        self._room = room
        self._best = np.zeros((items + 1, room + 1))
        self._sums = np.empty(room + 1)

    def fill(self, values: Sequence[float], weights: Sequence[int]) -> tuple[float, list[int]]:
        """Choose the items of most value whose weights, each from 1 to the room, fit together."""
        best, sums, size = self._best, self._sums, self._room + 1
        for item, (value, weight) in enumerate(zip(values, weights, strict=True)):
            before, after = best[item], best[item + 1]
            after[:weight] = before[:weight]
            taken = sums[: size - weight]
            np.add(before[: size - weight], value, out=taken)
            np.maximum(before[weight:], taken, out=after[weight:])
        return float(best[len(values), self._room]), self._chosen(weights)

    def _chosen(self, weights: Sequence[int]) -> list[int]:
        left = self._room
        chosen = []
        for item in range(len(weights) - 1, -1, -1):
            if self._best[item + 1, left] > self._best[item, left]:
                chosen.append(item)
                left -= weights[item]
        return chosen
