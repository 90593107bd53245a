"""One part of a corpus: its documents as text, written whole or not at all, and a record of what they are.

The folder of a corpus:  part-00003.txt (paragraphs by line, a blank line between documents)
.made/plan.json  .made/00003.json  .made/words-00003.tsv
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.containers.data.corpus.claim import MADE
from slipway.containers.data.corpus.documents import CorpusDocument, documents_of
from slipway.containers.data.corpus.part_records import read_record, record_path
from slipway.containers.data.corpus.parts import Part
from slipway.containers.data.corpus.words import WordCounter
from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.origin import input_digest
from slipway.containers.data.sources.sources import Source
from slipway.containers.data.text.documents import digest_of, write_json

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusWork:
    """Hold what every worker needs to make any part."""

    source: Source
    folder: Path
    parts: tuple[Part, ...]
    field: str
    counts_words: bool
    cased: bool

    @property
    def plan(self) -> dict[str, object]:
        """Return everything that decides what the parts are."""
        return {
            "format": FORMAT,
            "parts": len(self.parts),
            "field": self.field,
            "counts_words": self.counts_words,
            "cased": self.cased,
            "input_sha256": input_digest(self.source),
        }

    def is_made(self, number: int) -> bool:
        return finished_part(self, number) is not None

    def make(self, number: int) -> None:
        make_part(self, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    number: int
    plan: str  # its digest
    documents: int
    others: int  # redirects, talk, templates, and what has no passage
    characters: int
    bytes: int
    sha256: str


def part_name(number: int) -> str:
    return f"part-{number:05}.txt"


def words_path(folder: Path, number: int) -> Path:
    return folder / MADE / f"words-{number:05}.tsv"


def finished_part(work: CorpusWork, number: int) -> PartRecord | None:
    """Return the record of a part that needs no more work: its text is there, as long as it was written."""
    record = read_record(PartRecord, work.folder, number, digest_of(work.plan))
    return record if record is not None and _is_there(work, record) else None


def make_part(work: CorpusWork, number: int) -> PartRecord:
    path = work.folder / part_name(number)
    for left_over in work.folder.glob(f".{path.name}.*"):
        left_over.unlink(missing_ok=True)
    part = work.folder / f".{path.name}.{os.getpid()}"
    counter = WordCounter() if work.counts_words else None
    try:
        with TextWriter(part, counter) as writer:
            for piece in work.parts[number]:
                writer.write(documents_of(work.source, piece, work.field))
        if counter is not None:
            counter.write(words_path(work.folder, number), cased=work.cased)
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"cannot write {path}: {why}", hint="finished parts are kept") from error
    finally:
        part.unlink(missing_ok=True)
    record = writer.record(number, digest_of(work.plan))
    write_json(record_path(work.folder, number), asdict(record))
    return record


class TextWriter:
    """Writes documents and counts what it writes; synced when it closes."""

    def __init__(self, path: Path, counter: WordCounter | None) -> None:
        self._path, self._counter = path, counter
        self._digest = hashlib.sha256()
        self._documents = self._others = self._characters = self._bytes = 0

    def __enter__(self) -> TextWriter:
        self._file = self._path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        with self._file as file:
            file.flush()
            os.fsync(file.fileno())

    def write(self, documents: Iterable[CorpusDocument]) -> None:
        for document in documents:
            if not document.paragraphs:
                self._others += 1
                continue
            text = "\n".join(document.paragraphs)
            data = f"{text}\n\n".encode()
            self._file.write(data)
            self._digest.update(data)
            self._documents += 1
            self._characters += len(text)
            self._bytes += len(data)
            if self._counter is not None:
                self._counter.add(text)

    def record(self, number: int, plan: str) -> PartRecord:
        return PartRecord(
            number=number,
            plan=plan,
            documents=self._documents,
            others=self._others,
            characters=self._characters,
            bytes=self._bytes,
            sha256=self._digest.hexdigest(),
        )


def _is_there(work: CorpusWork, record: PartRecord) -> bool:
    path = work.folder / part_name(record.number)
    has_words = not work.counts_words or words_path(work.folder, record.number).is_file()
    return has_words and path.is_file() and path.stat().st_size == record.bytes
