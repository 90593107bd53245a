"""Boxes: the block of a tensor that a rank holds, a file stores or a caller asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """Locate a block of a tensor: its begin and its length in each dimension."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        assert len(self.offsets) == len(self.shape), f"{self} has other dimensions in offsets and shape"

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Box:
        """Return the box of a whole tensor."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def ends(self) -> tuple[int, ...]:
        return tuple(offset + side for offset, side in zip(self.offsets, self.shape, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        """Return the slices that cut this box out of an array."""
        return tuple(map(slice, self.offsets, self.ends))

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def overlap(self, other: Box) -> Box | None:
        """Return the common part of both boxes, or None."""
        low = tuple(map(max, self.offsets, other.offsets))
        high = tuple(map(min, self.ends, other.ends))
        if any(end <= start for start, end in zip(low, high, strict=True)):
            return None
        return Box(low, tuple(end - start for start, end in zip(low, high, strict=True)))

    def within(self, outer: Box) -> Box:
        """Return this box with its offsets counted from the first element of `outer`."""
        return Box(
            tuple(own - start for own, start in zip(self.offsets, outer.offsets, strict=True)), self.shape
        )

    def stretch_in(self, outer: Box) -> tuple[int, int]:
        """Return the first element of this box in `outer`, and the one after its last, in row-major order."""
        steps = strides(outer.shape)
        begins = self.within(outer).offsets
        first = sum(begin * step for begin, step in zip(begins, steps, strict=True))
        rest = sum((side - 1) * step for side, step in zip(self.shape, steps, strict=True))
        return first, first + rest + 1


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return how many elements lie between neighbours in each dimension, in row-major order."""
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


def boxes_of_stretch(shape: Sequence[int], start: int, end: int) -> list[Box]:
    """Return the boxes that make elements `start` to `end` of a flattened tensor, in order: at most 2n-1."""
    if start >= end:
        return []
    if not shape:
        return [Box((), ())]
    row = math.prod(shape[1:])
    first, last = -(-start // row), end // row  # the whole rows
    if first > last:
        return _in_row(shape, last, start - last * row, end - last * row)
    found = _in_row(shape, first - 1, start - (first - 1) * row, row) if start % row else []
    if first < last:
        found.append(Box((first, *(0 for _ in shape[1:])), (last - first, *shape[1:])))
    return found + _in_row(shape, last, 0, end - last * row)


def _in_row(shape: Sequence[int], row: int, start: int, end: int) -> list[Box]:
    below = boxes_of_stretch(shape[1:], start, end)
    return [Box((row, *box.offsets), (1, *box.shape)) for box in below]
