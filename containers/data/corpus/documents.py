"""The documents of one stretch, whatever holds them: paragraphs by line, in a text's own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slipway.containers.data.corpus.json_lines import decoded_line, text_of
from slipway.containers.data.corpus.parts import CorpusPiece
from slipway.containers.data.corpus.records import lines, pages
from slipway.containers.data.corpus.streams import unpacked
from slipway.containers.data.corpus.wikitext import passages, read_page
from slipway.containers.data.sources.sources import Source

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
            yield CorpusDocument("", _paragraphs(text_of(name, line, field)))


def _of_text(source: Source, piece: CorpusPiece, field: str) -> Iterator[CorpusDocument]:
    """Yield documents that blank lines part; one that lies across two parts is two."""
    name = piece.piece.name
    held: list[str] = []
    for line in lines(name, unpacked(source, piece.piece), is_first=piece.piece.start == 0):
        if found := _paragraphs(decoded_line(name, line)):
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


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(line for raw in _ENDS.sub("\n", text).split("\n") if (line := raw.strip()))
