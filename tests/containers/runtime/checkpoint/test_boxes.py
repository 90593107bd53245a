"""A stretch of a flattened tensor is a few boxes; boxes meet where their tensors do."""

from __future__ import annotations

import math
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.checkpoint.boxes import Box, boxes_of_stretch, strides

SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


def numbers(box: Box, shape: tuple[int, ...]) -> list[int]:
    """Number the elements of a box as they lie in the flattened whole, in the box's own order."""
    steps = strides(shape)
    sides = [range(start, end) for start, end in zip(box.offsets, box.ends, strict=True)]
    return [sum(at * step for at, step in zip(place, steps, strict=True)) for place in product(*sides)]


@given(shape=SHAPES, data=st.data())
def test_a_stretch_is_its_boxes_in_order_and_never_more_than_2n_minus_1(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    size = math.prod(shape)
    start = data.draw(st.integers(0, size))
    end = data.draw(st.integers(start, size))
    boxes = boxes_of_stretch(shape, start, end)
    assert [number for box in boxes for number in numbers(box, shape)] == list(range(start, end))
    assert len(boxes) <= max(1, 2 * len(shape) - 1)


@st.composite
def box_in(draw: st.DrawFn, shape: tuple[int, ...]) -> Box:
    starts = [draw(st.integers(0, side - 1)) for side in shape]
    return Box(
        tuple(starts),
        tuple(draw(st.integers(1, side - start)) for side, start in zip(shape, starts, strict=True)),
    )


@given(shape=SHAPES, data=st.data())
def test_two_boxes_share_exactly_their_common_elements(shape: tuple[int, ...], data: st.DataObject) -> None:
    one, other = data.draw(box_in(shape)), data.draw(box_in(shape))
    common = one.overlap(other)
    shared = set(numbers(one, shape)) & set(numbers(other, shape))
    assert set(numbers(common, shape) if common else ()) == shared
    if common is not None:
        first, last = common.stretch_in(one)
        within = [numbers(one, shape).index(number) for number in numbers(common, shape)]
        assert (first, last) == (within[0], within[-1] + 1)
