"""Cut the input into shards, and read the text of a shard in units that fit into memory.

The cuts depend only on the input and the number of shards. Shards begin where documents begin. A document
longer than the last of SEARCH_BYTES is cut, so that no endless line or huge file goes to a single shard.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.sources import Ahead, Source, SourceFile, at_once
from slipway.containers.data.tokens.engine import TAGGED

SEARCH_BYTES = (1 << 16, 1 << 20)
# 32 MB of text give 100 MB of rows with five duplicates, in some seconds.
DEFAULT_SHARD_BYTES = 32 << 20
MOST_SHARDS = 100_000


@dataclass(frozen=True, slots=True)
class Piece:
    name: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """Address all files as if laid end to end."""

    source: Source
    files: Sequence[SourceFile]
    begins: Sequence[int]
    style_of: Callable[[SourceFile], int]

    def first_cut(self, place: int) -> int:
        """Return the first place at or after this one where a shard may begin."""
        number = bisect_right(self.begins, place) - 1
        file, start = self.files[number], self.begins[number]
        if place == start:
            return start
        at, style = place - start, self.style_of(file)
        begin = max(0, at - LONGEST_MARK_BYTES)
        data = b""
        for length in SEARCH_BYTES:
            data = self.source.read(file.name, begin, min(length, file.size_bytes - begin))
            found = next_document(data, at - begin, style)
            if found >= 0:
                return start + begin + found
            if begin + len(data) == file.size_bytes:
                return start + file.size_bytes
        return start + begin + next_blank(data, at - begin)


def plan_shards(source: Source, shards: int) -> list[list[Piece]]:
    files = _with_text(source)
    begins = [0, *accumulate(file.size_bytes for file in files)]
    places = [begins[-1] * shard // shards for shard in range(shards)]
    layout = JoinedFiles(
        source,
        files,
        begins,
        cache(lambda file: style_of(file.name, source.read(file.name, 0, min(file.size_bytes, HEAD_BYTES)))),
    )
    cuts = at_once(source, layout.first_cut, places)
    return [_pieces(files, begins, begin, end) for begin, end in pairwise([*cuts, begins[-1]])]


def shards_for(source: Source) -> int:
    """Return a number of shards that suits the size of the input, the same on any machine."""
    total = sum(file.size_bytes for file in _with_text(source))
    return min(MOST_SHARDS, -(-total // DEFAULT_SHARD_BYTES))


def _with_text(source: Source) -> list[SourceFile]:
    files = [file for file in source.files if file.size_bytes]
    if not files:
        raise DataError(f"the input is empty: {len(source.files)} files, 0 bytes", hint="give text")
    return files


def _pieces(files: Sequence[SourceFile], begins: Sequence[int], begin: int, end: int) -> list[Piece]:
    found = []
    number = bisect_right(begins, begin) - 1
    while number < len(files) and begins[number] < end and begin < end:
        file, offset = files[number], begins[number]
        found.append(Piece(file.name, max(begin - offset, 0), min(end - offset, file.size_bytes)))
        number += 1
    return found


# A shard's text is read in units and must be strict UTF-8; errors name the file, line and byte. A unit is
# held in memory, and random next sentences are drawn from it: 8 MB are 20,000 articles of one paragraph.
UNIT_BYTES = 8 << 20
Read = Callable[[str, int, int], bytes]
LONE_RETURN = re.compile(rb"\r[^\n]")  # one at the end of a unit may have its \n in the next unit


@dataclass(frozen=True, slots=True)
class Text:
    """Hold whole documents of a file, or a part of one that is too long for one unit."""

    name: str
    start: int
    data: bytes
    style: int


def units_of(source: Source, pieces: list[Piece], unit_bytes: int = UNIT_BYTES) -> Iterator[list[Text]]:
    """Yield units of about equal size: small files are joined, large ones are cut between documents."""
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
            f"{name}:{_line_of(source, name, where)}: byte {where} is a carriage return without a line feed",
            hint="convert the line ends: tr '\\r' '\\n'",
        )


def _line_of(source: Source, name: str, place: int) -> int:
    """Return the line number of a byte, by reading the file up to there; only errors need it."""
    steps = range(0, place, UNIT_BYTES)
    return 1 + sum(source.read(name, at, min(UNIT_BYTES, place - at)).count(b"\n") for at in steps)


# The first bytes of a file tell its type. Its text is cut between documents where possible.
HEAD_BYTES = 4096
TAG = b"<doc "
# The mark between two documents, and how many bytes of it belong to the first document.
MARKS = {0: ((b"\n\n", 2), (b"\n\r\n", 3)), TAGGED: ((b"\n" + TAG, 1),)}
LONGEST_MARK_BYTES = 3
BLANKS = (b"\n", b" ", b"\t")
MAGIC = (
    (b"\xef\xbb\xbf", "begins with a byte order mark", "remove its first three bytes: tail -c +4"),
    (b"\xff\xfe", "is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\x1f\x8b", "is compressed by gzip", "unpack it first"),
    (b"BZh", "is compressed by bzip2", "unpack it first"),
    (b"PK\x03\x04", "is a zip archive", "unpack it first"),
    (b"\xfd7zXZ", "is compressed by xz", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd", "unpack it first"),
    (b"\x89HDF", "is HDF5", "give text"),
    (b"PAR1", "is Parquet", "write its text column to a file"),
)


def style_of(name: str, head: bytes) -> int:
    """Return TAGGED for WikiExtractor's output, 0 for other text; refuse files that are not text."""
    for magic, what, hint in MAGIC:
        if head.startswith(magic):
            raise DataError(f"{name} {what}", hint=hint)
    zeros = head.count(0)
    if zeros * 4 > len(head):
        raise DataError(
            f"{name} is not text: {zeros} of its first {len(head)} bytes are zero",
            hint="if it is UTF-16, convert it: iconv -f UTF-16LE -t UTF-8",
        )
    return TAGGED if head.startswith(TAG) else 0


def next_document(data: bytes, at: int, style: int) -> int:
    """Return the first position from `at` on where a document begins, or -1; its mark may lie before `at`."""
    found = [
        begin + length
        for mark, length in MARKS[style]
        if (begin := data.find(mark, max(0, at - length))) >= 0
    ]
    return min(found, default=-1)


def next_blank(data: bytes, at: int) -> int:
    """Return the position after the next line end, else after the next blank, else of the next character."""
    for blank in BLANKS:
        end = data.find(blank, at) + 1
        if end:
            return end
    end = at
    while end < min(at + 3, len(data)) and data[end] & 0xC0 == 0x80:
        end += 1
    return end


def last_cut(data: bytes, style: int) -> int:
    """Return the last position where a document begins, else one after a blank, else the last character's."""
    found = max(
        (begin + length for mark, length in MARKS[style] if (begin := data.rfind(mark)) >= 0), default=0
    )
    for blank in BLANKS:
        found = found or data.rfind(blank) + 1
    if found:
        return found
    begin = len(data) - 1
    while begin > max(1, len(data) - 4) and data[begin] & 0xC0 == 0x80:
        begin -= 1
    return begin
