"""The documents of one stretch, whatever holds them: paragraphs by line, in a text's own words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slipway.containers.data.corpus.parts import CorpusPiece
from slipway.containers.data.corpus.records import lines, pages
from slipway.containers.data.corpus.streams import unpacked
from slipway.containers.data.corpus.wikitext import passages, read_page
from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.sources import Source
from slipway.containers.runtime.values import shown

_ENDS = re.compile(r"\r\n?|[\u2028\u2029\x0b\x0c\x85]")


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    title: str
    paragraphs: tuple[str, ...]  # none: not an article


def documents_of(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    """Yield the documents that begin in the stretch; `field` holds the text of those that are JSON."""
    return _READERS[piece.kind](source, piece, field)


def _of_dump(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    name = piece.piece.name
    for found in pages(name, unpacked(source, piece.piece)):
        page = read_page(name, found)
        yield CorpusDocument(page.title, tuple(passages(page.text)) if page.is_article else ())


def _of_lines(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    name = piece.piece.name
    for line in lines(name, unpacked(source, piece.piece), is_first=piece.piece.start == 0):
        if line.strip():
            yield CorpusDocument("", _paragraphs(_text_of(name, line, field)))


def _of_text(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    """Yield documents that blank lines part; one that lies across two parts is two."""
    name = piece.piece.name
    held: list[str] = []
    for line in lines(name, unpacked(source, piece.piece), is_first=piece.piece.start == 0):
        if found := _paragraphs(_decoded(name, line)):
            held.extend(found)
        elif held:
            yield CorpusDocument("", tuple(held))
            held = []
    if held:
        yield CorpusDocument("", tuple(held))


_READERS: Mapping[str, Callable[[Source, CorpusPiece, str], Iterator[CorpusDocument]]] = {
    "dump": _of_dump,
    "lines": _of_lines,
    "text": _of_text,
}


def _text_of(name: str, line: bytes, field: str) -> str:
    try:
        found = json.loads(_decoded(name, line))
    except (ValueError, RecursionError):
        raise DataError(
            f"{name} holds a line that is not JSON: {shown(line[:80].decode('utf-8', 'replace'))}",
            hint="each line is one object",
        ) from None
    text = found.get(field) if isinstance(found, dict) else None
    if not isinstance(text, str):
        known = ", ".join(sorted(found)[:12]) if isinstance(found, dict) else type(found).__name__
        raise DataError(
            f"{name} holds a line without text in {field!r}; it has {shown(known)}",
            hint="set field to the one that holds the text",
        )
    return text


def _decoded(name: str, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} holds a line that is not UTF-8: byte {error.start} (0x{line[error.start]:02x}) of it",
            hint="convert the file, for example: iconv -f LATIN1 -t UTF-8",
        ) from None


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(line for raw in _ENDS.sub("\n", text).split("\n") if (line := raw.strip()))
