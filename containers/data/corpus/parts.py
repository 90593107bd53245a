"""What a corpus is made of, and how it is shared: in parts of about equal work, by the input alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from slipway.containers.data.corpus.streams import BZIP2, GZIP, can_be_cut
from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.pieces import Piece
from slipway.containers.data.sources.sources import Source, SourceFile

PART_BYTES = 64 << 20  # of text as it unpacks: half a minute to minutes of one processor
_PACKED = 5  # times smaller
_FULLEST = 1.25
MOST_PARTS = 100_000
_SUFFIXES = {".xml": "dump", ".jsonl": "lines", ".ndjson": "lines", ".txt": "text", "": "text"}
_PACKED_SUFFIXES = (".bz2", ".gz")


@dataclass(frozen=True, slots=True)
class CorpusPiece:
    kind: str  # dump, lines or text
    piece: Piece


Part = tuple[CorpusPiece, ...]


def parts_of(source: Source, wanted: int | None = None) -> list[Part]:
    """Cut the input into about as many parts, or into parts of PART_BYTES."""
    files = [file for file in source.files if file.size_bytes]
    weights = {file.name: file.size_bytes * (_PACKED if _is_packed(source, file) else 1) for file in files}
    if not files:
        raise DataError(f"the input is empty: {len(source.files)} files, 0 bytes", hint="give text")
    room = sum(weights.values()) / wanted if wanted else PART_BYTES
    parts: list[list[CorpusPiece]] = [[]]
    filled = 0.0
    for file in files:
        pieces = _pieces(source, file, max(1, round(weights[file.name] / room)))
        share = weights[file.name] / room / len(pieces)
        for piece in pieces:
            if parts[-1] and filled + share > _FULLEST:
                parts.append([])
                filled = 0.0
            parts[-1].append(piece)
            filled += share
    if len(parts) > MOST_PARTS:
        raise DataError(f"the input makes {len(parts)} parts", hint=f"set parts to at most {MOST_PARTS}")
    return [tuple(part) for part in parts]


def kind_of(name: str) -> str:
    """Tell by its name what a file holds: a dump, documents by line, or text."""
    bare = name
    for suffix in _PACKED_SUFFIXES:
        bare = bare.removesuffix(suffix)
    last = bare.rpartition("/")[2]
    suffix = last[last.rfind(".") :] if "." in last else ""
    if ".xml" in last:  # pages-articles-multistream1.xml-p1p41242 is what Wikimedia calls a piece
        return "dump"
    if suffix not in _SUFFIXES:
        allowed = ", ".join(kind for kind in _SUFFIXES if kind)
        raise DataError(
            f"{name} is not a file that is read here",
            hint=f"a name ends in {allowed}, and then perhaps in {' or '.join(_PACKED_SUFFIXES)}",
        )
    return _SUFFIXES[suffix]


def bytes_of(part: Part) -> int:
    """Count what a part reads of the input, packed as it is."""
    return sum(piece.piece.stop - piece.piece.start for piece in part)


def _pieces(source: Source, file: SourceFile, cuts: int) -> list[CorpusPiece]:
    cuts = min(cuts, file.size_bytes) if can_be_cut(source, file) else 1
    places = (file.size_bytes * cut // cuts for cut in range(cuts + 1))
    kind = kind_of(file.name)
    return [CorpusPiece(kind, Piece(file.name, start, stop)) for start, stop in pairwise(places)]


def _is_packed(source: Source, file: SourceFile) -> bool:
    return source.read(file.name, 0, min(len(BZIP2), file.size_bytes)).startswith((BZIP2, GZIP))
