"""Stages of a pipeline are cut so that the slowest is as fast as can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations

import pytest

from slipway.containers.training.layout import Costs, balanced


def of_stages(costs: Costs, counts: Sequence[int]) -> list[float]:
    """Return what each stage takes if they have so many layers."""
    ends = list(accumulate(counts))
    found = [sum(costs.layers[end - count : end]) for end, count in zip(ends, counts, strict=True)]
    found[0] += costs.first
    found[-1] += costs.last
    return found


def dearest_of_all(costs: Costs, stages: int) -> float:
    """Return the cheapest dearest stage of all ways to cut."""
    layers = len(costs.layers)
    ways = (
        [end - begin for begin, end in zip((0, *cuts), (*cuts, layers), strict=True)]
        for cuts in combinations(range(1, layers), stages - 1)
    )
    return min(max(of_stages(costs, counts)) for counts in ways)


def test_a_dear_head_takes_layers_off_the_last_stage() -> None:
    costs = Costs(first=0.1, layers=[1.0] * 8, last=3.0)
    counts = balanced(costs, 4)
    assert (max(of_stages(costs, counts)), max(of_stages(costs, (2, 2, 2, 2)))) == (4.0, 5.0)
    assert (sum(counts), counts[-1]) == (8, 1)


@pytest.mark.parametrize("stages", [1, 2, 3, 5, 7])
def test_no_other_cut_has_a_cheaper_dearest_stage(stages: int) -> None:
    costs = Costs(first=0.5, layers=[1.0, 4.0, 1.0, 2.0, 2.0, 0.5, 3.0], last=2.5)
    counts = balanced(costs, stages)
    assert len(counts) == stages
    assert min(counts) >= 1
    assert max(of_stages(costs, counts)) == dearest_of_all(costs, stages)


def test_equal_layers_with_nothing_beside_them_are_dealt_evenly() -> None:
    assert balanced(Costs(first=0.0, layers=[1.0] * 28, last=0.0), 4) == (7, 7, 7, 7)
