"""Columns of text and numbers from an Arrow file, as Hugging Face's datasets writes it: uncompressed, flat.

A reader of our own for this little, since pyarrow is 45 MB in every image: streams and files of the format in
https://arrow.apache.org/docs/format/Columnar.html (Message.fbs, Schema.fbs). Another type is a row of KINDS.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from slipway.containers.data.errors import DataError

FILE_MAGIC = b"ARROW1\0\0"
CONTINUES = 0xFFFFFFFF
SCHEMA, RECORD_BATCH = 1, 3  # of MessageHeader
MOST_FIELDS = 10_000

Values = list[object]


class _Damaged(Exception):
    """The file contradicts itself."""


@dataclass(frozen=True, slots=True)
class _Table:
    """Read a flatbuffer table: fields by number, absent ones by default."""

    data: bytes
    at: int

    def place(self, field: int) -> int | None:
        vtable = self.at - _number("<i", self.data, self.at)
        entry = 4 + 2 * field
        if entry >= _number("<H", self.data, vtable):
            return None
        offset = _number("<H", self.data, vtable + entry)
        return self.at + offset if offset else None

    def number(self, field: int, form: str, default: int = 0) -> int:
        place = self.place(field)
        return default if place is None else _number(form, self.data, place)

    def table(self, field: int) -> _Table | None:
        place = self.place(field)
        return None if place is None else _Table(self.data, place + _number("<I", self.data, place))

    def vector(self, field: int, item_bytes: int) -> range:
        """Return the range where its items begin."""
        place = self.place(field)
        if place is None:
            return range(0)
        begin = place + _number("<I", self.data, place)
        count = _number("<I", self.data, begin)
        if count > MOST_FIELDS:
            raise _Damaged
        return range(begin + 4, begin + 4 + count * item_bytes, item_bytes)

    def tables(self, field: int) -> list[_Table]:
        return [_Table(self.data, at + _number("<I", self.data, at)) for at in self.vector(field, 4)]

    def text(self, field: int) -> str:
        place = self.place(field)
        if place is None:
            return ""
        begin = place + _number("<I", self.data, place)
        return _stretch(self.data, begin + 4, _number("<I", self.data, begin)).decode()


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    buffers: int
    read: Callable[[Sequence[bytes], int], Values]


def read_arrow(name: str, data: bytes, wanted: Sequence[str]) -> dict[str, Values]:
    """Read whole columns, None marking a missing value. `name` is for messages."""
    try:
        return _read(name, data, wanted)
    except (_Damaged, struct.error, UnicodeDecodeError, ValueError, OverflowError):
        raise DataError(
            f"{name} is damaged, or no Arrow file", hint="write it again with datasets' save_to_disk"
        ) from None


def _read(name: str, data: bytes, wanted: Sequence[str]) -> dict[str, Values]:
    columns: list[_Column] = []
    found: dict[str, Values] = {}
    for kind, header, body in _messages(data):
        if kind == SCHEMA:
            columns = [_column(name, table) for table in header.tables(1)]
            _check_columns(name, [each.name for each in columns], wanted)
            found = {each: [] for each in wanted}
        elif kind == RECORD_BATCH and found:
            if header.place(3) is not None:
                raise DataError(f"{name} is compressed", hint="write it with datasets' save_to_disk")
            for column, values in _batch(header, body, columns):
                if column in found:
                    found[column] += values
        else:
            raise DataError(
                f"{name} holds an Arrow message of kind {kind}",
                hint="write it with datasets' save_to_disk, without dictionaries",
            )
    if not found:
        raise _Damaged
    return found


def _messages(data: bytes) -> Iterator[tuple[int, _Table, memoryview]]:
    at = len(FILE_MAGIC) if data.startswith(FILE_MAGIC) else 0
    while at < len(data):
        mark, size = struct.unpack_from("<II", data, at)
        if mark != CONTINUES:
            raise _Damaged
        if not size:  # the end of the stream; a file goes on with its index
            return
        metadata = _stretch(data, at + 8, size)
        message = _Table(metadata, _number("<I", metadata, 0))
        header, length = message.table(2), message.number(3, "<q")
        if header is None or length < 0 or at + 8 + size + length > len(data):
            raise _Damaged
        yield message.number(1, "<B"), header, memoryview(data)[at + 8 + size : at + 8 + size + length]
        at += 8 + size + length


def _column(name: str, field: _Table) -> _Column:
    type_number, type_table = field.number(2, "<B"), field.table(3)
    is_dictionary = field.place(4) is not None
    if type_table is None or type_number not in KINDS or is_dictionary:
        what = "dictionary-encoded" if is_dictionary else f"neither text nor numbers (type {type_number})"
        raise DataError(
            f"{name}: the column {field.text(0)!r} is {what}",
            hint="remove_columns or cast it, then save_to_disk",
        )
    return _Column(field.text(0), *KINDS[type_number](type_table))


def _check_columns(name: str, there: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [each for each in wanted if each not in there]
    if missing:
        raise DataError(
            f"{name} has no column {', '.join(missing)}; it has {', '.join(there)}",
            hint="give the task's own files, as datasets names their columns",
        )


def _batch(header: _Table, body: memoryview, columns: Sequence[_Column]) -> Iterator[tuple[str, Values]]:
    rows = header.number(0, "<q")
    buffers = []
    for at in header.vector(2, 16):
        begin, length = struct.unpack_from("<qq", header.data, at)
        buffers.append(_stretch(body, begin, length))
    if len(buffers) != sum(each.buffers for each in columns) or rows < 0:
        raise _Damaged
    for column in columns:
        own, buffers = buffers[: column.buffers], buffers[column.buffers :]
        yield column.name, _without_missing(column.read(own[1:], rows), own[0])


def _without_missing(values: Values, valid: bytes) -> Values:
    if not valid:
        return values
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little", count=len(values))
    return [value if is_valid else None for value, is_valid in zip(values, bits, strict=True)]


Reader = tuple[int, Callable[[Sequence[bytes], int], Values]]


def _numbers(kind: np.dtype[Any]) -> Reader:
    def read(buffers: Sequence[bytes], rows: int) -> Values:
        found: Values = np.frombuffer(buffers[0], kind, rows).tolist()
        return found

    return 2, read


def _integers(of: _Table) -> Reader:
    width = of.number(0, "<i")
    if width not in (8, 16, 32, 64):
        raise _Damaged
    return _numbers(np.dtype(f"<{'i' if of.number(1, '<B') else 'u'}{width // 8}"))


def _floats(of: _Table) -> Reader:
    precision = of.number(0, "<h")
    if precision not in _FLOATS:
        raise _Damaged
    return _numbers(np.dtype(_FLOATS[precision]))


_FLOATS: Mapping[int, str] = {0: "<f2", 1: "<f4", 2: "<f8"}


def _texts(offset: str) -> Callable[[_Table], Reader]:
    def read(buffers: Sequence[bytes], rows: int) -> Values:
        if not rows:  # then even the first offset may be left out
            return []
        ends = np.frombuffer(buffers[0], offset, rows + 1).tolist()
        data = bytes(buffers[1])
        if ends != sorted(ends) or ends[0] < 0 or ends[-1] > len(data):
            raise _Damaged
        return [data[begin:end].decode() for begin, end in pairwise(ends)]

    return lambda _: (3, read)


# By the number of the union Type in Schema.fbs.
KINDS: Mapping[int, Callable[[_Table], Reader]] = {
    2: _integers,
    3: _floats,
    5: _texts("<i4"),
    20: _texts("<i8"),
}


def _number(form: str, data: bytes, at: int) -> int:
    if at < 0:
        raise _Damaged
    return int(struct.unpack_from(form, data, at)[0])


def _stretch(data: bytes | memoryview, begin: int, length: int) -> bytes:
    if begin < 0 or length < 0 or begin + length > len(data):
        raise _Damaged
    return bytes(data[begin : begin + length])
