"""Fill the table of a knapsack: by item (row) and room (column), the most that the items up to it earn.

Each item is left out, or taken in one of its options. If numba is installed, compiled code adds up the same
sums in the same order, so plans do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
# Takes the table; where each item's options begin, and the last ones end; each option's room and value.
Filling = Callable[[Numbers, Whole, Whole, Numbers], None]


def plain_fill(most: Numbers, first: Whole, lengths: Whole, values: Numbers) -> None:
    size = most.shape[1]
    sums = np.empty(size)
    most[0] = 0.0
    starts, rooms, worths = first.tolist(), lengths.tolist(), values.tolist()
    for item in range(len(starts) - 1):
        before, after = most[item], most[item + 1]
        after[:] = before
        for option in range(starts[item], starts[item + 1]):
            room = rooms[option]
            taken = sums[: max(size - room, 0)]
            np.add(before[: len(taken)], worths[option], out=taken)
            np.maximum(after[room:], taken, out=after[room:])


def _fastest() -> Filling:
    if find_spec("numba") is None:
        return plain_fill
    from slipway.jobs.plan.search.knapsack import compiled

    return compiled.fill


fill: Filling = _fastest()
