"""Rotary positions: each query and key turns by an angle that grows with its position (Su et al. 2021).

GPT-J and GPT-NeoX rotate the first dimensions of a head and leave the others unchanged. By default the others
are split off and put back. With `rotates_whole_heads` they get the speed zero, and the whole head is rotated
at once, which AWS's article on Trainium found faster there. GPT-NeoX pairs dimension i with i + n/2 of the n
that rotate. In a whole head the pairs are others, so the rows of queries and keys are kept in another order:
a score is a sum over dimensions, the same in any order. Weights are read and written in the published order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

Rotation = tuple[Tensor, Tensor]  # cosines and sines: length × half of the dimensions that rotate
Span = tuple[int, int]  # the first of some dimensions, and their number

PARTS = 3  # a head has a query, a key and a value
_FUSED = "attention.query_key_value."


class HeadShape(Protocol):
    """The part of a decoder's shape that rotation needs."""

    @property
    def head_width(self) -> int: ...
    @property
    def rotary_dimensions(self) -> int: ...
    @property
    def rotary_base(self) -> float: ...
    @property
    def rotates_neighbours(self) -> bool: ...
    @property
    def rotates_whole_heads(self) -> bool: ...


def turning(shape: HeadShape) -> int:
    """Return how many dimensions of a head go through the rotation."""
    return shape.head_width if shape.rotates_whole_heads else shape.rotary_dimensions


def rotation(shape: HeadShape, length: int, like: Tensor) -> Rotation:
    """Return cosines and sines of all positions, computed in fp32 and cast to the type of `like`."""
    numbers = torch.arange(0, shape.rotary_dimensions, 2, dtype=torch.float32, device=like.device)
    speeds = 1.0 / (shape.rotary_base ** (numbers / shape.rotary_dimensions))
    still = turning(shape) // 2 - speeds.shape[0]
    if still:
        speeds = torch.cat((speeds, speeds.new_zeros(still)))
    angles = torch.arange(length, dtype=torch.float32, device=like.device)[:, None] * speeds
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotated(heads: Tensor, turned: Rotation, *, neighbours: bool) -> Tensor:
    """Rotate the dimensions of each head that the tables cover; `heads` is batch × length × … × width."""
    still: tuple[Tensor, ...] = ()
    moved, turning = heads, 2 * turned[0].shape[-1]
    if turning < heads.shape[-1]:
        # The gradient of a split is a concatenation; that of slices is added to zeros, which costs twice.
        moved, *still = heads.split((turning, heads.shape[-1] - turning), dim=-1)
    cosines, sines = (table[:, None, None, :] for table in turned)
    first, second = moved.unflatten(-1, (-1, 2)).unbind(-1) if neighbours else moved.chunk(2, dim=-1)
    halves = [first * cosines - second * sines, second * cosines + first * sines]
    if neighbours:
        halves = [torch.stack(halves, dim=-1).flatten(-2)]
    return torch.cat((*halves, *still), dim=-1)


def is_rearranged(shape: HeadShape, parameter: str) -> bool:
    """Return True if we keep the rows of this parameter in another order than the published one."""
    is_other = not shape.rotates_neighbours and shape.rotary_dimensions < shape.head_width
    return shape.rotates_whole_heads and is_other and _FUSED in parameter


def published_spans(shape: HeadShape) -> list[Span]:
    """Return where our rows of one head (query, key, value) lie in the published order."""
    width, half = shape.head_width, shape.rotary_dimensions // 2
    rest = width // 2 - half
    order = [(0, half), (2 * half, rest), (half, half), (2 * half + rest, rest)]
    return [*order, *((width + begin, rows) for begin, rows in order), (2 * width, width)]


def spans_between(shape: HeadShape, begin: int, end: int) -> Iterator[tuple[int, Span]]:
    """Yield our rows from `begin` to `end` as runs: our first row, and the span of published rows."""
    spans, whole = published_spans(shape), PARTS * shape.head_width
    at = begin
    while at < end:
        head, inside = divmod(at, whole)
        for first, rows in spans:
            if inside < rows:
                count = min(rows - inside, end - at)
                yield at, (head * whole + first + inside, count)
                at += count
                break
            inside -= rows


def rearranged(shape: HeadShape, parameter: str, published: Tensor) -> Tensor:
    """Return a whole published parameter with its rows in our order."""
    if not is_rearranged(shape, parameter):
        return published
    heads = published.view(-1, PARTS * shape.head_width, *published.shape[1:])
    spans = published_spans(shape)
    return torch.cat([heads[:, begin : begin + rows] for begin, rows in spans], dim=1).view_as(published)
