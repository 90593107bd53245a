"""A stretch of a file as it reads unpacked: bzip2 and gzip are streamed, never held whole.

A bzip2 file may be many streams one after the other (Wikipedia's "multistream" dumps, pbzip2): each begins
with ten known bytes, so that any rank finds the first one of its stretch. One stream is for one process.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.pieces import Piece
from slipway.containers.data.sources.sources import Source, SourceFile

BLOCK_BYTES = 4 << 20
BZIP2, GZIP = b"BZh", b"\x1f\x8b"
_STREAM = b"1AY&SY"  # begins the first block, after "BZh" and the level; a whole stream begins at a byte
_MAGIC_BYTES = 4 + len(_STREAM)
_UNPACKED_BYTES = 1 << 20
_GZIP_BITS = 31  # the largest window, and a gzip header
_AGAIN = "get the file again, and compare its checksum; the parts that are made are kept"


@dataclass(frozen=True, slots=True)
class UnpackedBlock:
    data: bytes
    is_past: bool  # begins after the stretch: it only completes what was begun in it


def unpacked(source: Source, piece: Piece) -> Iterator[UnpackedBlock]:
    """Yield what the stretch holds, and then what follows it, for as long as the caller asks."""
    file = next(file for file in source.files if file.name == piece.name)
    magic = source.read(file.name, 0, min(len(BZIP2), file.size_bytes))
    if magic == BZIP2:
        return _bzip2(source, file, piece)
    if magic.startswith(GZIP):
        return _gzip(source, file)
    return _plain(source, file, piece)


def can_be_cut(source: Source, file: SourceFile) -> bool:
    """Return False for gzip, which only opens at its beginning."""
    return not source.read(file.name, 0, min(len(GZIP), file.size_bytes)).startswith(GZIP)


def _plain(source: Source, file: SourceFile, piece: Piece) -> Iterator[UnpackedBlock]:
    for begin, end, is_past in ((piece.start, piece.stop, False), (piece.stop, file.size_bytes, True)):
        for at in range(begin, end, BLOCK_BYTES):
            yield UnpackedBlock(source.read(file.name, at, min(BLOCK_BYTES, end - at)), is_past)


def _gzip(source: Source, file: SourceFile) -> Iterator[UnpackedBlock]:
    opened, is_begun, at = zlib.decompressobj(wbits=_GZIP_BITS), False, 0
    for read in _read_on(source, file, 0):
        at, packed = at + len(read), read
        while packed:
            is_begun = True
            try:
                data = opened.decompress(packed, _UNPACKED_BYTES)
            except zlib.error as error:
                raise DataError(f"{file.name} is damaged before byte {at}: {error}", hint=_AGAIN) from None
            yield UnpackedBlock(data, is_past=False)
            packed = opened.unconsumed_tail
            if opened.eof:  # another stream may follow
                packed, is_begun = opened.unused_data, False
                opened = zlib.decompressobj(wbits=_GZIP_BITS)
    if is_begun:
        raise DataError(f"{file.name} ends in the middle of its gzip stream", hint=_AGAIN)


def _bzip2(source: Source, file: SourceFile, piece: Piece) -> Iterator[UnpackedBlock]:
    begin = _first_stream(source, file, piece.start)
    while begin < file.size_bytes:
        end = yield from _stream(source, file, begin, is_past=begin >= piece.stop)
        begin = _first_stream(source, file, end)


def _stream(
    source: Source, file: SourceFile, begin: int, *, is_past: bool
) -> Generator[UnpackedBlock, None, int]:
    """Yield one stream, and return where it ended."""
    opened, at = bz2.BZ2Decompressor(), begin
    for read in _read_on(source, file, begin):
        at, packed = at + len(read), read
        while packed or not (opened.needs_input or opened.eof):
            try:
                data = opened.decompress(packed, _UNPACKED_BYTES)
            except OSError:
                where = f"the bzip2 stream at byte {begin}, before byte {at}"
                raise DataError(f"{file.name} is damaged in {where}", hint=_AGAIN) from None
            yield UnpackedBlock(data, is_past)
            if opened.eof:
                return at - len(opened.unused_data)
            packed = b""
    raise DataError(
        f"{file.name} ends in the middle of the bzip2 stream that begins at byte {begin}", hint=_AGAIN
    )


def _first_stream(source: Source, file: SourceFile, start: int) -> int:
    """Return where the first stream at or after `start` begins, or the end of the file."""
    at = start
    while at < file.size_bytes:
        data = source.read(file.name, at, min(BLOCK_BYTES, file.size_bytes - at))
        found = data.find(_STREAM)
        while found >= 0:
            if found >= 4 and data[found - 4 : found - 1] == BZIP2:
                return at + found - 4
            found = data.find(_STREAM, found + 1)
        at += max(1, len(data) - _MAGIC_BYTES + 1)
    return file.size_bytes


def _read_on(source: Source, file: SourceFile, begin: int) -> Iterator[bytes]:
    for at in range(begin, file.size_bytes, BLOCK_BYTES):
        yield source.read(file.name, at, min(BLOCK_BYTES, file.size_bytes - at))
