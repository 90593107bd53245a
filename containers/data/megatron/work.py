"""One part of a corpus as tokens: written whole or not at all, with a record of what it is.

The folder:  tokens.bin  tokens.idx  tokenizer.json  manifest.json
.made/plan.json  and, until they are merged, .made/part-00003.bin  .made/part-00003.idx  .made/00003.json
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from slipway.containers.data.corpus.claim import MADE
from slipway.containers.data.corpus.part_records import read_record, record_path
from slipway.containers.data.corpus.parts import Part
from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.engines import BpeEngine, open_engine
from slipway.containers.data.megatron.index import HEADER, Ids, index_path, tokens_path, type_for
from slipway.containers.data.megatron.texts import texts_of
from slipway.containers.data.megatron.writer import TokenWriter, write_index
from slipway.containers.data.sources.origin import input_digest
from slipway.containers.data.sources.sources import Source
from slipway.containers.data.text.documents import digest_of, write_json

FORMAT = 1
VOCABULARY = "tokenizer.json"
BATCH_CHARACTERS = 4 << 20
KEPT = "parts that are made are kept; run the same again"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWork:
    """Hold what every worker needs to make any part. The vocabulary lies in the folder."""

    source: Source
    folder: Path
    parts: tuple[Part, ...]
    field: str
    vocabulary: str  # its digest
    entries: int
    end_of_document: int | None
    engine: str  # the library that encodes; it changes no token

    @property
    def plan(self) -> dict[str, object]:
        """Return everything that decides what the tokens are."""
        return {
            "format": FORMAT,
            "parts": len(self.parts),
            "field": self.field,
            "vocabulary_sha256": self.vocabulary,
            "end_of_document": self.end_of_document,
            "input_sha256": input_digest(self.source),
        }

    def is_made(self, number: int) -> bool:
        return finished_tokens(self, number) is not None

    def make(self, number: int) -> None:
        make_tokens(self, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    number: int
    plan: str  # its digest
    documents: int
    empty: int  # without any token, and left out
    tokens: int
    characters: int
    sha256: str  # of the .bin


def part_prefix(work: TokenWork, number: int) -> Path:
    return work.folder / MADE / f"part-{number:05}"


def finished_tokens(work: TokenWork, number: int) -> TokenRecord | None:
    """Return the record of a part that needs no more work: its files are as long as they were written."""
    record = read_record(TokenRecord, work.folder, number, digest_of(work.plan))
    return record if record is not None and _is_there(work, record) else None


def records_of(work: TokenWork, numbers: Iterable[int]) -> list[TokenRecord]:
    """Return the records of the parts that are made."""
    return [record for number in numbers if (record := finished_tokens(work, number)) is not None]


def make_tokens(work: TokenWork, number: int) -> TokenRecord:
    prefix = part_prefix(work, number)
    unfinished = prefix.with_name(f".{prefix.name}.{os.getpid()}")
    for left_over in prefix.parent.glob(f".{prefix.name}.*"):
        left_over.unlink(missing_ok=True)
    kind = type_for(work.entries)
    counts = TextCounts()
    try:
        with TokenWriter(unfinished, kind) as writer:
            for texts in _batches(work, number, counts):
                _write(work, writer, texts, counts)
        unfinished.replace(tokens_path(prefix))
        write_index(unfinished, kind, [writer.lengths])
        unfinished.replace(index_path(prefix))
    except OSError as error:
        raise DataError(f"cannot write {prefix}: {error.strerror or error}", hint=KEPT) from error
    finally:
        unfinished.unlink(missing_ok=True)
    record = TokenRecord(
        number=number,
        plan=digest_of(work.plan),
        documents=counts.documents,
        empty=counts.empty,
        tokens=writer.tokens,
        characters=counts.characters,
        sha256=writer.sha256,
    )
    write_json(record_path(work.folder, number), asdict(record))
    return record


@dataclass(slots=True)
class TextCounts:
    documents: int = 0
    empty: int = 0
    characters: int = 0


def _batches(work: TokenWork, number: int, counts: TextCounts) -> Iterator[list[str]]:
    """Yield texts, some megabytes at a time."""
    held: list[str] = []
    size = 0
    for piece in work.parts[number]:
        for text in texts_of(work.source, piece, work.field):
            held.append(text)
            size += len(text)
            if size >= BATCH_CHARACTERS:
                counts.characters += size
                yield held
                held, size = [], 0
    counts.characters += size
    yield held


def _write(work: TokenWork, writer: TokenWriter, texts: list[str], counts: TextCounts) -> None:
    encoded = [ids for ids in engine_of(work.folder / VOCABULARY, work.engine).encode(texts) if len(ids)]
    counts.empty += len(texts) - len(encoded)
    counts.documents += len(encoded)
    if not encoded:
        return
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    stretches: list[Ids] = encoded
    if work.end_of_document is not None:
        end = np.array([work.end_of_document], np.uint32)
        stretches = [ids for document in encoded for ids in (document, end)]
        lengths += 1
    writer.add(np.concatenate(stretches), lengths)


@lru_cache(maxsize=1)
def engine_of(vocabulary: Path, name: str) -> BpeEngine:
    """Read the vocabulary once in each process, and open the engine on it."""
    return open_engine(name, vocabulary.read_bytes())


def _is_there(work: TokenWork, record: TokenRecord) -> bool:
    prefix, size = part_prefix(work, record.number), np.dtype(type_for(work.entries)).itemsize
    sizes = {
        tokens_path(prefix): record.tokens * size,
        index_path(prefix): HEADER.size + 20 * record.documents + 8,
    }
    return all(path.is_file() and path.stat().st_size == wanted for path, wanted in sizes.items())
