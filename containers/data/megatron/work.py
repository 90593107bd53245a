"""Write the parts of a corpus as tokens, each whole or not at all and with a record, and merge them.

The folder:  tokens.bin  tokens.idx  tokenizer.json  manifest.json
.made/plan.json  and, until the merge, .made/part-00003.bin  .made/part-00003.idx  .made/00003.json
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.corpus.documents import documents_of, lines, text_of
from slipway.containers.data.corpus.parts import CorpusPiece, Part, bytes_of, unpacked
from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.engines import BpeEngine, open_engine
from slipway.containers.data.megatron.index import (
    HEADER,
    Ids,
    TokenIndex,
    index_path,
    tokens_path,
    type_for,
    write_index,
    write_tokens,
)
from slipway.containers.data.preparation import (
    MADE,
    Report,
    claim,
    lone_process,
    plan_path,
    read_record,
    record_path,
    unfinished,
)
from slipway.containers.data.sources.sources import Source, input_digest
from slipway.containers.data.text.documents import digest_of, own_neighbour, read_json, write_json

FORMAT = 1
VOCABULARY = "tokenizer.json"
BATCH_CHARACTERS = 4 << 20
KEPT = "run the same command again; finished parts are kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWork:
    """Hold what every worker needs to make any part. The vocabulary is a file of the folder."""

    source: Source
    folder: Path
    parts: tuple[Part, ...]
    field: str
    vocabulary: str  # the digest of the vocabulary
    vocabulary_size: int
    end_of_document: int | None
    engine: str  # the library that encodes; all give the same tokens

    @property
    def plan(self) -> dict[str, object]:
        """Return everything that decides the tokens."""
        return {
            "format": FORMAT,
            "parts": len(self.parts),
            "field": self.field,
            "vocabulary_sha256": self.vocabulary,
            "end_of_document": self.end_of_document,
            "input_sha256": input_digest(self.source),
        }

    def bytes_of(self, number: int) -> int:
        return bytes_of(self.parts[number])

    def is_made(self, number: int) -> bool:
        return finished_tokens(self, number) is not None

    def make(self, number: int, report: Report) -> None:
        make_tokens(self, number)
        report(self.bytes_of(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    number: int
    plan: str  # the digest of the plan
    documents: int
    empty: int  # documents without tokens, which are left out
    tokens: int
    characters: int
    sha256: str  # of the .bin


def begin_tokens(work: TokenWork, vocabulary: bytes) -> None:
    """Claim the folder for this plan, and write the vocabulary there, for every worker to read."""
    claim(work.folder, plan_path(work.folder), work.plan, "tokens")
    path = work.folder / VOCABULARY
    if not path.exists():
        temporary = own_neighbour(path)
        temporary.write_bytes(vocabulary)
        temporary.replace(path)


def part_prefix(work: TokenWork, number: int) -> Path:
    return work.folder / MADE / f"part-{number:05}"


def finished_tokens(work: TokenWork, number: int) -> TokenRecord | None:
    """Return the record of a finished part; None if a file is missing or has another length."""
    record = read_record(TokenRecord, record_path(work.folder, number), number, digest_of(work.plan))
    if record is None:
        return None
    prefix, size = part_prefix(work, number), np.dtype(type_for(work.vocabulary_size)).itemsize
    sizes = {
        tokens_path(prefix): record.tokens * size,
        index_path(prefix): HEADER.size + 20 * record.documents + 8,
    }
    is_there = all(path.is_file() and path.stat().st_size == wanted for path, wanted in sizes.items())
    return record if is_there else None


def records_of(work: TokenWork, numbers: Iterable[int]) -> list[TokenRecord]:
    """Return the records of the finished parts."""
    return [record for number in numbers if (record := finished_tokens(work, number)) is not None]


def is_made(work: TokenWork, number: int) -> bool:
    """Return True if a part is finished, or if all are merged, which removes the parts."""
    return finished_tokens(work, number) is not None or merged_tokens(work) is not None


def make_tokens(work: TokenWork, number: int) -> TokenRecord:
    prefix = part_prefix(work, number)
    kind = type_for(work.vocabulary_size)
    counts = TextCounts()
    with unfinished(prefix, KEPT) as part:
        sha256, lengths = write_tokens(part, kind, _encoded(work, number, counts))
        part.replace(tokens_path(prefix))
        write_index(part, kind, [lengths])
        part.replace(index_path(prefix))
    record = TokenRecord(
        number=number,
        plan=digest_of(work.plan),
        documents=len(lengths),
        empty=counts.empty,
        tokens=int(lengths.sum(dtype=np.int64)),
        characters=counts.characters,
        sha256=sha256,
    )
    write_json(record_path(work.folder, number), asdict(record))
    return record


@dataclass(slots=True)
class TextCounts:
    empty: int = 0
    characters: int = 0


def _encoded(work: TokenWork, number: int, counts: TextCounts) -> Iterator[tuple[Ids, NDArray[np.int64]]]:
    """Yield the ids of some documents end to end, and how many each has."""
    end = [] if work.end_of_document is None else [np.array([work.end_of_document], np.uint32)]
    for texts in _batches(work, number, counts):
        encoded = [ids for ids in engine_of(work.folder / VOCABULARY, work.engine).encode(texts) if len(ids)]
        counts.empty += len(texts) - len(encoded)
        if encoded:
            lengths = np.fromiter(map(len, encoded), np.int64, len(encoded)) + len(end)
            yield np.concatenate([ids for document in encoded for ids in (document, *end)]), lengths


def _batches(work: TokenWork, number: int, counts: TextCounts) -> Iterator[list[str]]:
    """Yield lists of texts, each list about BATCH_CHARACTERS long."""
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


@lru_cache(maxsize=1)
def engine_of(vocabulary: Path, name: str) -> BpeEngine:
    """Read the vocabulary once in each process, and open the engine on it."""
    return open_engine(name, vocabulary.read_bytes())


def texts_of(source: Source, piece: CorpusPiece, field: str) -> Iterator[str]:
    """Yield the documents that begin in the stretch: JSON's unchanged, others as paragraphs of a corpus.

    For JSON, `field` names the field with the text.
    """
    if piece.kind != "lines":
        found = documents_of(source, piece, field)
        yield from ("\n".join(document.paragraphs) for document in found if document.paragraphs)
        return
    stretch = piece.piece
    whole_lines = lines(stretch.name, unpacked(source, stretch), is_first=stretch.start == 0)
    for number, line in enumerate(whole_lines, 1):
        if not line.strip():
            continue
        where = f"{stretch.name}, line {number} after byte {stretch.start},"
        text = text_of(where, line, field)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{where} holds half of a surrogate pair, such as \\ud800, which UTF-8 cannot express",
                hint="correct or remove the line",
            ) from None
        yield text


# Merge the parts of a corpus into one pair of files, as if one process had written them.
TOKENS = "tokens"  # tokens.bin and tokens.idx
MANIFEST = "manifest.json"
COPIED_BYTES = 64 << 20


def merge_tokens(work: TokenWork) -> dict[str, object] | None:
    """Merge all parts and return the manifest, or None if some are missing.

    The last job of an array merges. The parts are removed once the merged files are safe.
    """
    with lone_process(work.folder / MADE / "merge.lock"):
        if (merged := merged_tokens(work)) is not None:
            return merged
        records = records_of(work, range(len(work.parts)))
        if len(records) < len(work.parts):
            return None
        manifest = _manifest(work, records)
        if not manifest["documents"]:
            raise DataError(
                f"none of the {len(work.parts)} parts of the input has a document with a token",
                hint=f"look at its files, and whether their text is in the field '{work.field}'",
            )
        _join(work, [record for record in records if record.documents])
        write_json(work.folder / MANIFEST, manifest)
        for number in range(len(work.parts)):
            record_path(work.folder, number).unlink(missing_ok=True)
            tokens_path(part_prefix(work, number)).unlink(missing_ok=True)
            index_path(part_prefix(work, number)).unlink(missing_ok=True)
        return manifest


def merged_tokens(work: TokenWork) -> dict[str, object] | None:
    """Return the manifest if the merged tokens are whole and of this plan."""
    path, prefix = work.folder / MANIFEST, work.folder / TOKENS
    if not path.exists():
        return None
    manifest = read_json(path)
    sizes = {tokens_path(prefix): manifest.get("bytes"), index_path(prefix): manifest.get("index_bytes")}
    is_whole = all(file.is_file() and file.stat().st_size == size for file, size in sizes.items())
    return manifest if is_whole and manifest.get("plan") == digest_of(work.plan) else None


def _manifest(work: TokenWork, records: Sequence[TokenRecord]) -> dict[str, object]:
    documents, tokens = sum(record.documents for record in records), sum(record.tokens for record in records)
    kind = np.dtype(type_for(work.vocabulary_size))
    return {
        "plan": digest_of(work.plan),
        "documents": documents,
        "empty_documents": sum(record.empty for record in records),
        "tokens": tokens,
        "characters": sum(record.characters for record in records),
        "type": kind.name,
        "bytes": tokens * kind.itemsize,
        "index_bytes": HEADER.size + 20 * documents + 8,
        "vocabulary_entries": work.vocabulary_size,
        "vocabulary_sha256": work.vocabulary,
        "end_of_document": work.end_of_document,
        "parts_sha256": [record.sha256 for record in records],
    }


def _join(work: TokenWork, records: Sequence[TokenRecord]) -> None:
    whole = work.folder / TOKENS
    parts = [part_prefix(work, record.number) for record in records]
    with unfinished(whole, KEPT) as temporary:
        with temporary.open("wb") as file:
            for part in parts:
                _append(tokens_path(part), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(tokens_path(whole))
        write_index(
            temporary, type_for(work.vocabulary_size), [TokenIndex.open(part).lengths for part in parts]
        )
        temporary.replace(index_path(whole))


def _append(path: Path, target: BinaryIO) -> None:
    """Append a file inside the kernel; file systems that can share blocks copy no data."""
    with path.open("rb") as source:
        target.flush()
        while True:
            try:
                copied = os.copy_file_range(source.fileno(), target.fileno(), COPIED_BYTES)
            except OSError:  # not supported on this file system, or not between these two
                copied = os.sendfile(target.fileno(), source.fileno(), None, COPIED_BYTES)
            if not copied:
                return
