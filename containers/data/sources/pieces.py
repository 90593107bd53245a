"""Which stretch of which file each shard is made of: a function of the input and the number of shards alone.

Shards begin where documents do. A document longer than the last of SEARCH_BYTES is cut, so that neither one
endless line nor one huge file goes to a single shard.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.ahead import at_once
from slipway.containers.data.sources.sources import Source, SourceFile
from slipway.containers.data.tokens.cuts import (
    HEAD_BYTES,
    LONGEST_MARK_BYTES,
    next_blank,
    next_document,
    style_of,
)

SEARCH_BYTES = (1 << 16, 1 << 20)
# A shard per 32 MB of text: at five duplicates 100 MB of rows, made in some seconds.
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
        at = place - self.begins[number]
        return self.begins[number] + (self._cut_in_file(self.files[number], at) if at else 0)

    def _cut_in_file(self, file: SourceFile, at: int) -> int:
        style = self.style_of(file)
        begin = max(0, at - LONGEST_MARK_BYTES)
        data = b""
        for length in SEARCH_BYTES:
            data = self.source.read(file.name, begin, min(length, file.size_bytes - begin))
            found = next_document(data, at - begin, style)
            if found >= 0:
                return begin + found
            if begin + len(data) == file.size_bytes:
                return file.size_bytes
        return begin + next_blank(data, at - begin)


def plan_shards(source: Source, shards: int) -> list[list[Piece]]:
    files = _with_text(source)
    begins = [0, *accumulate(file.size_bytes for file in files)]
    places = [begins[-1] * shard // shards for shard in range(shards)]
    layout = JoinedFiles(source, files, begins, cache(lambda file: read_style(source, file)))
    cuts = at_once(source, layout.first_cut, places)
    return [_pieces(files, begins, begin, end) for begin, end in pairwise([*cuts, begins[-1]])]


def shards_for(source: Source) -> int:
    """Return a number of shards that suits the size of the input, whoever works on it."""
    total = sum(file.size_bytes for file in _with_text(source))
    return min(MOST_SHARDS, -(-total // DEFAULT_SHARD_BYTES))


def read_style(source: Source, file: SourceFile) -> int:
    return style_of(file.name, source.read(file.name, 0, min(file.size_bytes, HEAD_BYTES)))


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
