"""Fills one lane with the most valuable jobs: a knapsack over coarse time."""

from __future__ import annotations

import numpy as np

from slipway.jobs.plan.search.knapsack.filling import fill
from slipway.jobs.plan.search.lanes.lane import Floats, Integers


class Knapsack:
    """Solves knapsacks of one capacity, exactly, in a table that is used again."""

    def __init__(self, room: int, items: int) -> None:
        self._room = room
        self._most = np.zeros((items + 1, room + 1))
        self._first = np.arange(items + 1)  # each item has one option

    def fill(self, values: Floats, weights: Integers) -> tuple[float, list[int]]:
        """Choose the items of most value whose weights, each from 1 to the room, fit together."""
        fill(self._most, self._first[: len(values) + 1], weights, values)
        return float(self._most[len(values), self._room]), self._chosen(weights.tolist())

    def _chosen(self, weights: list[int]) -> list[int]:
        left = self._room
        chosen = []
        for item in range(len(weights) - 1, -1, -1):
            if self._most[item + 1, left] > self._most[item, left]:
                chosen.append(item)
                left -= weights[item]
        return chosen
