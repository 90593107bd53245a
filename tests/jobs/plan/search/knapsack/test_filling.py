"""What is compiled fills a knapsack as plain Python does, to the last bit, and so makes the same plans."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from slipway.jobs.plan.search.knapsack import plain
from slipway.jobs.plan.search.knapsack.plain import Filling, Numbers, Whole

ROOM = 30


def ways_to_fill() -> list[Filling]:
    pytest.importorskip("numba", reason="needs numba: the extra fast")
    from slipway.jobs.plan.search.knapsack import compiled

    return [plain.fill, compiled.fill]


def random_items(seed: int, items: int) -> tuple[Whole, Whole, Numbers]:
    """Build items of up to three options; some are too long for the room, and some take none of it."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    first = np.cumsum([0, *(dice.randint(0, 3) for _ in range(items))])
    lengths = [dice.randint(0, ROOM + 5) for _ in range(first[-1])]
    return first, np.array(lengths, dtype=np.int64), np.array([dice.random() for _ in lengths])


def most_of_all(first: Whole, lengths: Whole, values: Numbers) -> float:
    """Try every choice of options."""
    found = 0.0
    for choice in product(*([None, *range(first[at], first[at + 1])] for at in range(len(first) - 1))):
        taken = [option for option in choice if option is not None]
        if lengths[taken].sum() <= ROOM:
            found = max(found, float(values[taken].sum()))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_both_ways_to_fill_a_knapsack_find_the_most_and_the_same_table(seed: int) -> None:
    items = random_items(seed, 6)
    tables = [np.full((7, ROOM + 1), np.nan) for _ in ways_to_fill()]
    for fill, table in zip(ways_to_fill(), tables, strict=True):
        fill(table, *items)
    assert tables[0].tolist() == tables[1].tolist()
    assert tables[0][-1, -1] == pytest.approx(most_of_all(*items))
