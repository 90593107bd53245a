"""Where this rank's share of each parameter lies in the whole tensor, however it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from slipway.containers.runtime.checkpoint.boxes import Box

Shape = tuple[int, ...]
Span = tuple[int, int]  # where a run of rows begins in the whole, and how many they are


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorShare:
    """Describe a rank's share: runs of whole rows, and for one cut by rows a part of each of them."""

    shape: Shape  # of the whole
    spans: tuple[Span, ...]  # of its first dimension, in the order in which this rank holds them
    columns: Span | None = None  # of its second, if it is cut there

    def boxes(self, local: Tensor) -> Iterator[tuple[Box, Tensor]]:
        """Yield each box of the whole, with the view of `local` that holds it."""
        held = 0
        for begin, count in self.spans:
            view = local[held : held + count]
            held += count
            offsets, sides = [begin] + [0] * (len(self.shape) - 1), list(view.shape)
            if self.columns is not None:
                offsets[1] = self.columns[0]
            if view.numel():
                yield Box(tuple(offsets), tuple(sides)), view
        assert held == local.shape[0], f"{self} is not what {tuple(local.shape)} holds"


def share_of(
    shape: Shape, *, side: int | None, stacked: int, tensor: tuple[int, int], sharded: tuple[int, int]
) -> TensorShare:
    """Return what a rank holds of a tensor that is cut between tensor ranks, then in shares of its rows.

    `tensor` and `sharded` are this rank's place among how many; `side` is the dimension that the tensor
    ranks cut.
    """
    columns, spans = None, [(0, shape[0])]
    if side == 0:
        spans = _cut_stack(shape[0], stacked, *tensor)
    elif side == 1:
        each = shape[1] // tensor[1]
        columns = (tensor[0] * each, each)
    return TensorShare(shape=shape, spans=tuple(_chunk(spans, *sharded)), columns=columns)


def _cut_stack(rows: int, stacked: int, place: int, degree: int) -> list[Span]:
    """Return the part of each stacked matrix that belongs to one of the tensor ranks."""
    whole = rows // stacked
    each = whole // degree
    return [(number * whole + place * each, each) for number in range(stacked)]


def _chunk(spans: list[Span], place: int, degree: int) -> Iterator[Span]:
    """Yield the share of one rank, as FSDP deals rows: all have as many but the last ones."""
    rows = sum(count for _, count in spans)
    each = -(-rows // degree)
    low, high = min(place * each, rows), min((place + 1) * each, rows)
    passed = 0
    for begin, count in spans:
        first, last = max(low - passed, 0), min(high - passed, count)
        if first < last:
            yield begin + first, last - first
        passed += count
