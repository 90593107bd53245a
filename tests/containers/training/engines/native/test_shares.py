"""However a tensor is cut, all ranks' boxes together are the whole, once."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from slipway.containers.training.engines.native.assembly import share_of  # noqa: E402


@pytest.mark.parametrize("shape", [(12, 8), (24, 4), (12,), (12, 4, 2)])
@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("sharded", [1, 2, 3, 5, 16])
@pytest.mark.parametrize(("side", "stacked"), [(None, 1), (0, 1), (0, 3), (1, 1)])
def test_all_ranks_together_hold_each_element_once(
    shape: tuple[int, ...], tensor: int, sharded: int, side: int | None, stacked: int
) -> None:
    if side is not None and (side >= len(shape) or shape[side] % (stacked * tensor)):
        pytest.skip("the layout is refused before anything is cut")
    held = torch.zeros(shape, dtype=torch.int64)
    for at in itertools.product(range(tensor), range(sharded)):
        share = share_of(shape, side=side, stacked=stacked, tensor=(at[0], tensor), sharded=(at[1], sharded))
        sides = [sum(count for _, count in share.spans), *shape[1:]]
        if share.columns is not None:
            sides[1] = share.columns[1]
        for box, view in share.boxes(torch.ones(sides, dtype=torch.int64)):
            held[box.slices] += view
    copies = 1 if side is not None else tensor
    assert (held == copies).all()


def test_a_rank_holds_its_own_heads_of_each_stacked_matrix() -> None:
    share = share_of((12, 4), side=0, stacked=3, tensor=(1, 2), sharded=(0, 1))
    assert share.spans == ((2, 2), (6, 2), (10, 2))  # of queries, keys and values
    second = share_of((12, 4), side=0, stacked=3, tensor=(1, 2), sharded=(1, 2))
    assert second.spans == ((7, 1), (10, 2))
