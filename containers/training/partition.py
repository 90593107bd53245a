"""How many layers each stage of a pipeline gets, so that the slowest stage is as fast as can be.

The slowest sets the pace of all. What stands beside the layers counts: words are looked up before the first,
and the head, as dear as some layers, stands behind the last. No torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Hold what a micro-batch takes, in any one unit."""

    first: float  # before the layers
    layers: Sequence[float]
    last: float  # behind them

    def of_stages(self, counts: Sequence[int]) -> list[float]:
        """Return what each stage takes if they have so many layers."""
        found, begin = [], 0
        for number, count in enumerate(counts):
            cost = sum(self.layers[begin : begin + count])
            cost += self.first if number == 0 else 0.0
            found.append(cost + (self.last if number == len(counts) - 1 else 0.0))
            begin += count
        return found


def balanced(costs: Costs, stages: int) -> tuple[int, ...]:
    """Return the layers of each stage for which the dearest stage is cheapest; each has one at least."""
    total = len(costs.layers)
    assert stages <= total, f"{total} layers are no {stages} stages"

    @cache
    def best(begin: int, left: int) -> tuple[float, float, tuple[int, ...]]:
        """Return the dearest stage, the sum of squares (of equals the evenest), and the counts."""
        is_last = left == 1
        found = []
        for end in (total,) if is_last else range(begin + 1, total - left + 2):
            own = sum(costs.layers[begin:end]) + (costs.last if is_last else 0.0)
            own += costs.first if begin == 0 else 0.0
            dearest, squares, counts = (0.0, 0.0, ()) if is_last else best(end, left - 1)
            found.append((max(own, dearest), squares + own * own, (end - begin, *counts)))
        return min(found)

    return best(0, stages)[2]
