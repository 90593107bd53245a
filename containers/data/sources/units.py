"""A shard's text in stretches that fit into memory: strict UTF-8, or an error with file, line and byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.ahead import Ahead
from slipway.containers.data.sources.pieces import Piece
from slipway.containers.data.sources.sources import Source
from slipway.containers.data.tokens.cuts import HEAD_BYTES, last_cut, style_of

# Held in memory at once, and what random sentences are drawn from; 20,000 articles of a paragraph each.
UNIT_BYTES = 8 << 20
Read = Callable[[str, int, int], bytes]
LONE_RETURN = re.compile(rb"\r[^\n]")  # the last one of a unit may have its \n in the next


@dataclass(frozen=True, slots=True)
class Text:
    """Hold whole documents of a file, or a part of one that is too long for one unit."""

    name: str
    start: int
    data: bytes
    style: int


def units_of(source: Source, pieces: list[Piece], unit_bytes: int = UNIT_BYTES) -> Iterator[list[Text]]:
    """Yield units of about equal size: small files together, large ones cut between documents."""
    unit: list[Text] = []
    room = unit_bytes
    for text in _texts(source, pieces, unit_bytes):
        if len(text.data) > room:
            yield unit
            unit, room = [], unit_bytes
        unit.append(text)
        room -= len(text.data)
    if unit:
        yield unit


def _texts(source: Source, pieces: list[Piece], unit_bytes: int) -> Iterator[Text]:
    stretches = [(piece.name, piece.start, piece.stop) for piece in pieces]
    with nullcontext(source) if source.reads_at_once == 1 else Ahead(source, stretches) as reader:
        for piece in pieces:
            yield from _texts_of(source, reader.read, piece, unit_bytes)


def _texts_of(source: Source, read: Read, piece: Piece, unit_bytes: int) -> Iterator[Text]:
    at = piece.start
    style = None if at == 0 else style_of(piece.name, source.read(piece.name, 0, min(at, HEAD_BYTES)))
    while at < piece.stop:
        data = read(piece.name, at, min(unit_bytes, piece.stop - at))
        if style is None:
            style = style_of(piece.name, data[:HEAD_BYTES])
        if at + len(data) < piece.stop:
            data = data[: last_cut(data, style)]
        _check_text(source, piece.name, at, data)
        yield Text(piece.name, at, data, style)
        at += len(data)


def _check_text(source: Source, name: str, start: int, data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        where = start + error.start
        raise DataError(
            f"{name}:{_line_of(source, name, where)}: byte {where} (0x{data[error.start]:02x}) is not UTF-8",
            hint="convert the file, for example: iconv -f LATIN1 -t UTF-8",
        ) from None
    alone = LONE_RETURN.search(data) if b"\r" in data else None
    if alone:
        where = start + alone.start()
        raise DataError(
            f"{name}:{_line_of(source, name, where)}: byte {where} is a carriage return alone",
            hint="convert the line ends: tr '\\r' '\\n'",
        )


def _line_of(source: Source, name: str, place: int) -> int:
    """Count the line of a place; done only when there is something to report."""
    steps = range(0, place, UNIT_BYTES)
    return 1 + sum(source.read(name, at, min(UNIT_BYTES, place - at)).count(b"\n") for at in steps)
