"""Random numbers that depend on their purpose, not on who draws them: splitmix64, as in native/examples.c."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
OF_UNIT = 4  # the use of the stream of a unit of the corpus; native/examples.c has uses below 4


class Stream:
    """Generate one sequence of 64-bit numbers, which the four arguments decide."""

    __slots__ = ("state",)

    def __init__(self, seed: int, use: int, number: int, duplicate: int = 0) -> None:
        state = mix((seed ^ use) + GOLDEN & MASK)
        state = mix((state ^ number) + GOLDEN & MASK)
        self.state = mix((state ^ duplicate) + GOLDEN & MASK)

    def draw(self) -> int:
        self.state = self.state + GOLDEN & MASK
        return mix(self.state)

    def below(self, limit: int) -> int:
        """Return a uniform random number below `limit`; the bias is less than limit / 2^64."""
        return self.draw() * limit >> 64


def mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def permutation(count: int, *seeds: int) -> NDArray[np.int64]:
    """Return 0..count-1 in an order that `seeds` decide, the same under every release of numpy."""
    start = Stream(*seeds).state
    with np.errstate(over="ignore"):
        keys = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(start)
        keys = (keys ^ keys >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ keys >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        keys ^= keys >> np.uint64(31)
    return np.argsort(keys, kind="stable")
