"""The texts of one stretch of the input: of JSON to the letter, other documents as a corpus has them."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.containers.data.corpus.json_lines import text_of
from slipway.containers.data.corpus.parts import CorpusPiece
from slipway.containers.data.corpus.records import lines
from slipway.containers.data.corpus.streams import unpacked
from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.sources import Source


def texts_of(source: Source, piece: CorpusPiece, field: str) -> Iterator[str]:
    """Yield the documents that begin in the stretch; `field` holds the text of those that are JSON."""
    return _of_lines(source, piece, field) if piece.kind == "lines" else _of_corpus(source, piece, field)


def _of_lines(source: Source, piece: CorpusPiece, field: str) -> Iterator[str]:
    stretch = piece.piece
    found = lines(stretch.name, unpacked(source, stretch), is_first=stretch.start == 0)
    for number, line in enumerate(found, 1):
        if not line.strip():
            continue
        where = f"{stretch.name}, line {number} after byte {stretch.start},"
        text = text_of(where, line, field)
        if not _can_be_written(text):
            raise DataError(
                f"{where} holds half of a surrogate pair, such as \\ud800, which no UTF-8 can hold",
                hint="correct or remove the line",
            )
        yield text


def _of_corpus(source: Source, piece: CorpusPiece, field: str) -> Iterator[str]:
    from slipway.containers.data.corpus.documents import documents_of  # half a second, for Wikipedia's markup

    for document in documents_of(source, piece, field):
        if document.paragraphs:
            yield "\n".join(document.paragraphs)


def _can_be_written(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
