"""Fill the table of a knapsack in code that numba compiles, the extra `fast`.

All compiled code is in this file: numba's cache does not notice a change in another one.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


@njit(cache=True, nogil=True)
def fill(most: Numbers, first: Whole, lengths: Whole, values: Numbers) -> None:
    size = most.shape[1]
    most[0, :] = 0.0
    for item in range(len(first) - 1):
        before, after = most[item], most[item + 1]
        after[:] = before
        for option in range(first[item], first[item + 1]):
            length, value = lengths[option], values[option]
            for room in range(length, size):
                after[room] = max(after[room], before[room - length] + value)
