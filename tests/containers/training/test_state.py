"""Pieces of tensors find their way whatever the cut; a checkpoint that lacks one is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.training.state import ForeignTensors, TensorPiece, encode, read_pieces


@given(
    size=st.integers(1, 60),
    saved=st.lists(st.integers(0, 60), max_size=6),
    wanted=st.lists(st.integers(0, 60), max_size=6),
)
def test_pieces_cut_one_way_fill_stretches_cut_another(
    size: int, saved: list[int], wanted: list[int]
) -> None:
    whole = torch.arange(size, dtype=torch.float32)
    pieces = [
        TensorPiece(kind="weights", parameter="p", start=low, data=whole[low:high])
        for low, high in _cuts(size, saved)
    ]
    for low, high in _cuts(size, wanted):
        target = torch.full((high - low,), -1.0)
        for piece in pieces:
            piece.copy_to(target, low)
        assert torch.equal(target, whole[low:high])


def test_a_checkpoint_that_lacks_a_part_of_a_tensor_is_refused(tmp_path: Path) -> None:
    pieces = [
        TensorPiece(kind=kind, parameter="p", start=0, data=torch.zeros(9 if kind == "exp_avg" else 10))
        for kind in ("weights", "exp_avg", "exp_avg_sq")
    ]
    with Checkpoints(tmp_path, Training(job="test", run="test", attempt=1)) as checkpoints:
        checkpoints.save(1, encode(pieces))
        found = checkpoints.resume()
        assert found is not None
        with pytest.raises(ForeignTensors, match="9 of 10 elements of exp_avg/p"):
            list(read_pieces(found, {"p": 10}))
        with pytest.raises(ForeignTensors, match="which this model does not have"):
            list(read_pieces(found, {"q": 10}))


def _cuts(size: int, places: list[int]) -> list[tuple[int, int]]:
    edges = sorted({0, size, *(place for place in places if place < size)})
    return list(pairwise(edges))
