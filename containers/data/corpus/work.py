"""Write one part of a corpus, whole or not at all, with a record; count its words; join the counts.

The folder of a corpus:  part-00003.txt (a paragraph per line, a blank line between documents)
.made/plan.json  .made/00003.json (the record)  .made/words-00003.tsv (the counts)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from heapq import merge, nlargest
from itertools import groupby
from pathlib import Path

from slipway.containers.data.corpus.documents import documents_of
from slipway.containers.data.corpus.parts import Part, bytes_of
from slipway.containers.data.preparation import MADE, Report, read_record, record_path, unfinished
from slipway.containers.data.sources.sources import Source, input_digest
from slipway.containers.data.text.documents import digest_of, write_json
from slipway.containers.data.text.words import chunks_of, word_counts
from slipway.containers.runtime import disk

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
        """Return everything that decides the content of the parts."""
        return {
            "format": FORMAT,
            "parts": len(self.parts),
            "field": self.field,
            "counts_words": self.counts_words,
            "cased": self.cased,
            "input_sha256": input_digest(self.source),
        }

    def bytes_of(self, number: int) -> int:
        return bytes_of(self.parts[number])

    def is_made(self, number: int) -> bool:
        return finished_part(self, number) is not None

    def make(self, number: int, report: Report) -> None:
        path, counts = self.folder / part_name(number), DocumentCounts()
        counter = WordCounter() if self.counts_words else None
        with unfinished(path, "finished parts are kept") as part:
            digest = disk.write_new(part, self._written(number, counts, counter))
            if counter is not None:
                counter.write(words_path(self.folder, number), cased=self.cased)
            part.replace(path)
        record = PartRecord(
            number=number,
            plan=digest_of(self.plan),
            documents=counts.documents,
            others=counts.others,
            characters=counts.characters,
            bytes=digest.bytes,
            sha256=digest.sha256,
        )
        write_json(record_path(self.folder, number), asdict(record))
        report(self.bytes_of(number))

    def _written(self, number: int, counts: DocumentCounts, counter: WordCounter | None) -> Iterator[bytes]:
        """Yield the bytes of each document of a part, and count it."""
        for piece in self.parts[number]:
            for document in documents_of(self.source, piece, self.field):
                if not document.paragraphs:
                    counts.others += 1
                    continue
                text = "\n".join(document.paragraphs)
                counts.documents += 1
                counts.characters += len(text)
                if counter is not None:
                    counter.add(text)
                yield f"{text}\n\n".encode()


@dataclass(slots=True)
class DocumentCounts:
    documents: int = 0
    others: int = 0  # pages left out: redirects, talk, templates, and pages without a paragraph
    characters: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    number: int
    plan: str  # the digest of the plan
    documents: int
    others: int
    characters: int
    bytes: int
    sha256: str


def part_name(number: int) -> str:
    return f"part-{number:05}.txt"


def words_path(folder: Path, number: int) -> Path:
    return folder / MADE / f"words-{number:05}.tsv"


def finished_part(work: CorpusWork, number: int) -> PartRecord | None:
    """Return the record of a finished part; None if its text is missing or has another length."""
    record = read_record(PartRecord, record_path(work.folder, number), number, digest_of(work.plan))
    path = work.folder / part_name(number)
    if record is None or (work.counts_words and not words_path(work.folder, number).is_file()):
        return None
    return record if path.is_file() and path.stat().st_size == record.bytes else None


# Count the words of a corpus part by part, and join the counts line by line, in bounded memory. The rarest
# words are forgotten when there are too many; only frequent ones matter for a vocabulary.
MOST_CHUNKS = 1 << 20  # different words in memory take about 100 MB
MOST_WORDS = 1 << 20  # for training a vocabulary
OPEN_FILES = 200


class WordCounter:
    def __init__(self, most: int = MOST_CHUNKS) -> None:
        self._most = most
        self._chunks: Counter[bytes] = Counter()

    def add(self, text: str) -> None:
        self._chunks.update(chunks_of(text.encode()))
        rarest = 1
        while len(self._chunks) > self._most:
            self._chunks = Counter({chunk: count for chunk, count in self._chunks.items() if count > rarest})
            rarest *= 2

    def write(self, path: Path, *, cased: bool) -> None:
        """Write `word<TAB>count` sorted by word, so that files can be joined line by line."""
        _write(path, sorted(word_counts(self._chunks, cased=cased).items()))


def most_frequent(paths: Iterable[Path], most: int = MOST_WORDS) -> Counter[str]:
    """Join sorted files of counts, OPEN_FILES at a time, and return the most frequent words."""
    waiting = list(paths)
    groups = [waiting[at : at + OPEN_FILES] for at in range(0, len(waiting), OPEN_FILES)]
    joined = [group[0].with_name(f"joined-{number}") for number, group in enumerate(groups)]
    try:
        for path, group in zip(joined, groups, strict=True):
            with ExitStack() as stack:
                _write(path, _joined(stack, group))
        with ExitStack() as stack:
            return Counter(
                dict(nlargest(most, _joined(stack, joined), key=lambda entry: (entry[1], entry[0])))
            )
    finally:
        for path in joined:
            path.unlink(missing_ok=True)


def _joined(stack: ExitStack, paths: Iterable[Path]) -> Iterator[tuple[str, int]]:
    files = [stack.enter_context(path.open(encoding="utf-8", newline="\n")) for path in paths]
    for word, entries in groupby(merge(*map(_entries, files)), key=lambda entry: entry[0]):
        yield word, sum(count for _, count in entries)


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        word, _, count = line.rpartition("\t")
        yield word, int(count)


def _write(path: Path, entries: Iterable[tuple[str, int]]) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with unfinished.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\t{count}\n" for word, count in entries)
    unfinished.replace(path)
