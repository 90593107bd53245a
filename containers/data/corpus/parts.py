"""Cut the input of a corpus into parts of about equal work, and read a stretch of a file unpacked.

The parts depend only on the input, not on who makes them. Another file type is a row of _SUFFIXES, and one of
_READERS in documents.py.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.pieces import Piece
from slipway.containers.data.sources.sources import Source, SourceFile

PART_BYTES = 64 << 20  # unpacked text, which takes one processor half a minute to some minutes
_PACKED = 5  # packed text is about this many times smaller
_FULLEST = 1.25  # parts: a piece goes to the next part rather than make this one fuller
MOST_PARTS = 100_000
_SUFFIXES = {".xml": "dump", ".jsonl": "lines", ".ndjson": "lines", ".txt": "text", "": "text"}
_PACKED_SUFFIXES = (".bz2", ".gz")


@dataclass(frozen=True, slots=True)
class CorpusPiece:
    kind: str  # dump, lines or text
    piece: Piece


Part = tuple[CorpusPiece, ...]


def parts_of(source: Source, wanted: int | None = None) -> list[Part]:
    """Cut the input into about `wanted` parts, by default into parts of PART_BYTES."""
    files = [file for file in source.files if file.size_bytes]
    weights = {file.name: file.size_bytes * (_PACKED if _is_packed(source, file) else 1) for file in files}
    if not files:
        raise DataError(f"the input is empty: {len(source.files)} files, 0 bytes", hint="give text")
    room = sum(weights.values()) / wanted if wanted else PART_BYTES
    parts: list[list[CorpusPiece]] = [[]]
    filled = 0.0
    for file in files:
        wanted_cuts = min(max(1, round(weights[file.name] / room)), file.size_bytes)
        cuts = wanted_cuts if can_be_cut(source, file) else 1
        kind = kind_of(file.name)
        share = weights[file.name] / room / cuts
        for start, stop in pairwise(file.size_bytes * cut // cuts for cut in range(cuts + 1)):
            if parts[-1] and filled + share > _FULLEST:
                parts.append([])
                filled = 0.0
            parts[-1].append(CorpusPiece(kind, Piece(file.name, start, stop)))
            filled += share
    if len(parts) > MOST_PARTS:
        raise DataError(f"the input makes {len(parts)} parts", hint=f"set parts to at most {MOST_PARTS}")
    return [tuple(part) for part in parts]


def kind_of(name: str) -> str:
    """Tell from its name what a file holds: a dump, JSON lines, or text."""
    bare = name
    for suffix in _PACKED_SUFFIXES:
        bare = bare.removesuffix(suffix)
    last = bare.rpartition("/")[2]
    suffix = last[last.rfind(".") :] if "." in last else ""
    if ".xml" in last:  # Wikimedia names pieces of a dump pages-articles-multistream1.xml-p1p41242
        return "dump"
    if suffix not in _SUFFIXES:
        allowed = ", ".join(kind for kind in _SUFFIXES if kind)
        raise DataError(
            f"the file type of {name} is not supported",
            hint=f"names end in {allowed}, optionally followed by {' or '.join(_PACKED_SUFFIXES)}",
        )
    return _SUFFIXES[suffix]


def bytes_of(part: Part) -> int:
    """Count the bytes of the input that a part reads, without unpacking."""
    return sum(piece.piece.stop - piece.piece.start for piece in part)


def _is_packed(source: Source, file: SourceFile) -> bool:
    return source.read(file.name, 0, min(len(BZIP2), file.size_bytes)).startswith((BZIP2, GZIP))


# Read a stretch of a file unpacked: bzip2 and gzip are streamed, never held whole.
# A bzip2 file may be many streams one after the other (Wikipedia's "multistream" dumps, pbzip2). Each begins
# with ten known bytes, so any process finds the first stream of its stretch. One process unpacks one stream.
BLOCK_BYTES = 4 << 20
BZIP2, GZIP = b"BZh", b"\x1f\x8b"
_STREAM = b"1AY&SY"  # follows "BZh" and the level at the start of a stream, which is aligned to bytes
_MAGIC_BYTES = 4 + len(_STREAM)
_UNPACKED_BYTES = 1 << 20
_GZIP_BITS = 31  # the largest window, and a gzip header
_AGAIN = "download the file again, and compare its checksum; finished parts are kept"


@dataclass(frozen=True, slots=True)
class UnpackedBlock:
    data: bytes
    is_past: bool  # True after the end of the stretch: only completes a document that began in it


def unpacked(source: Source, piece: Piece) -> Iterator[UnpackedBlock]:
    """Yield the content of the stretch, and then what follows it, for as long as the caller asks."""
    file = next(file for file in source.files if file.name == piece.name)
    magic = source.read(file.name, 0, min(len(BZIP2), file.size_bytes))
    if magic == BZIP2:
        return _bzip2(source, file, piece)
    if magic.startswith(GZIP):
        return _gzip(source, file)
    return _plain(source, file, piece)


def can_be_cut(source: Source, file: SourceFile) -> bool:
    """Return False for gzip, which can only be read from its beginning."""
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
    """Yield the content of one stream, and return where it ended."""
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
