"""Tensor files are safetensors, read without trust; boxes of tensors are cut and joined."""

from __future__ import annotations

import hashlib
import json
import math
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.checkpoint import tensor_file
from slipway.containers.runtime.checkpoint.boxes import Box, boxes_of_stretch, strides
from slipway.containers.runtime.checkpoint.tensor_file import (
    DamagedTensorFile,
    TensorData,
    decode_entries,
    write_tensors,
)
from slipway.containers.runtime.disk import Digest
from slipway.containers.runtime.errors import Refusal


@st.composite
def tensors(draw: st.DrawFn) -> TensorData:
    dtype = draw(st.sampled_from(sorted(tensor_file.ITEM_BYTES)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    size = math.prod(shape) * tensor_file.ITEM_BYTES[dtype]
    return TensorData(
        dtype=dtype, shape=shape, data=memoryview(draw(st.binary(min_size=size, max_size=size)))
    )


def read(path: Path, content: bytes) -> dict[str, TensorData]:
    """Read a file in parts, as models are read; `path` is for messages."""
    body = memoryview(content)
    entries = decode_entries(path, len(content), lambda start, length: body[start : start + length])
    return {
        name: TensorData(dtype=entry.dtype, shape=entry.shape, data=body[entry.begin : entry.end])
        for name, entry in entries.items()
    }


def framed(header: object, body: bytes = b"") -> bytes:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + body


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(
    lambda name: name != "__metadata__"
)


@given(saved=st.dictionaries(NAMES, tensors(), max_size=6))
def test_tensors_come_back_as_they_were_saved(
    tmp_path_factory: pytest.TempPathFactory, saved: dict[str, TensorData]
) -> None:
    path = tmp_path_factory.mktemp("tensors") / "file"
    written = write_tensors(path, saved)
    content = path.read_bytes()
    assert written == Digest(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    assert read(path, content) == saved


def test_other_programs_read_the_file_and_we_read_theirs(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    numpy = pytest.importorskip("numpy")
    arrays = {
        "w": numpy.arange(12, dtype="f4").reshape(3, 4),
        "n": numpy.array(7, dtype="i8"),
        "e": numpy.zeros((0, 3)),
    }
    theirs = tmp_path / "theirs"
    library.save_file(arrays, theirs)
    ours = tmp_path / "ours"
    write_tensors(ours, read(theirs, theirs.read_bytes()))
    again = library.load_file(ours)
    assert {name: array.tolist() for name, array in again.items()} == {
        name: array.tolist() for name, array in arrays.items()
    }


ONE = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
HOSTILE = {
    "empty": b"",
    "short": b"\x01\x00",
    "header of 100 GB": (100 * 10**9).to_bytes(8, "little") + b"{}",
    "header longer than the file": (64).to_bytes(8, "little") + b"{}",
    "no JSON": framed(b"\xff{"),
    "deep JSON": framed(b"[" * 100_000),
    "no object": framed([]),
    "a name twice": framed(
        b'{"a":' + json.dumps(ONE).encode() + b',"a":' + json.dumps(ONE).encode() + b"}", b"xx"
    ),
    "overlapping": framed({"a": ONE, "b": {**ONE, "data_offsets": [1, 3]}}, b"xxx"),
    "the same bytes twice": framed({"a": ONE, "b": ONE}, b"xx"),
    "a gap": framed({"a": ONE, "b": {**ONE, "data_offsets": [3, 5]}}, b"xxxxx"),
    "bytes that belong to none": framed({"a": ONE}, b"xxx"),
    "out of range": framed({"a": {**ONE, "data_offsets": [0, 2]}}, b"x"),
    "backwards": framed({"a": {**ONE, "shape": [0], "data_offsets": [2, 0]}}, b"xx"),
    "negative": framed({"a": {**ONE, "shape": [-2], "data_offsets": [0, -2]}}),
    "huge": framed({"a": {**ONE, "shape": [2**63, 2**63], "data_offsets": [0, 2**126]}}),
    "true for one": framed({"a": {**ONE, "shape": [True], "data_offsets": [0, 1]}}, b"x"),
    "fractions": framed({"a": {**ONE, "shape": [2.0]}}, b"xx"),
    "unknown dtype": framed({"a": {**ONE, "dtype": "OBJECT"}}, b"xx"),
    "dtype of another kind": framed({"a": {**ONE, "dtype": ["U8"]}}, b"xx"),
    "another field": framed({"a": {**ONE, "code": "x"}}, b"xx"),
    "three offsets": framed({"a": {**ONE, "data_offsets": [0, 2, 2]}}, b"xx"),
    "a shape that does not fit": framed({"a": {**ONE, "shape": [3]}}, b"xx"),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_lies_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    """BI-158"""
    with pytest.raises(DamagedTensorFile) as refused:
        read(tmp_path / "file", content)
    assert str(refused.value).isprintable()


@given(content=st.binary(max_size=200))
def test_any_bytes_are_tensors_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "file"
    try:
        found = read(path, framed(content) if len(content) % 2 else content)
    except DamagedTensorFile:
        return
    assert all(isinstance(tensor, TensorData) for tensor in found.values())


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    """F22, BI-155: protocol 0 of os.mkdir, as a checkpoint of another program would hold it."""
    target = tmp_path / "made by the pickle"
    evil = f"cos\nmkdir\n(V{target}\ntR.".encode()
    with pytest.raises(DamagedTensorFile):
        read(tmp_path / "rank-00000.safetensors", evil)
    assert not target.exists()


@pytest.mark.parametrize(
    ("dtype", "shape", "size"), [("F32", (2,), 4), ("F33", (1,), 4), ("U8", (3,), 2), ("U8", (-1,), 0)]
)
def test_tensors_that_are_none_cannot_be_made(dtype: str, shape: tuple[int, ...], size: int) -> None:
    with pytest.raises(Refusal):
        TensorData(dtype=dtype, shape=shape, data=memoryview(bytes(size)))


# A part of a flattened tensor is a few boxes; boxes intersect where their tensors do.
SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


def numbers(box: Box, shape: tuple[int, ...]) -> list[int]:
    """Return the flat numbers of a box's elements in the whole tensor, in the box's own order."""
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
