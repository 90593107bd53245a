"""Read and write token files of Megatron-LM and GPT-NeoX: NAME.bin holds ids, NAME.idx says where they lie.

NAME.idx, little-endian: 9 bytes of magic, the version (8 bytes), the code of the ids' type (1), the number of
sequences (8), the number of documents plus one (8). Then the length of each sequence (int32), the first byte
of each sequence in NAME.bin (int64), the first sequence of each document (int64), and the number of sequences
(int64). Source: megatron/core/datasets/indexed_dataset.py. Files are mapped for reading, never read whole.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError
from slipway.containers.runtime import disk
from slipway.containers.runtime.named_files import UnusableFile, open_regular

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
HEADER = struct.Struct("<9sQBQQ")
# The codes of both projects for integer types; they disagree on floating-point types.
TYPES: Mapping[int, type[np.integer[Any]]] = {
    1: np.uint8,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    8: np.uint16,
}
CODES: Mapping[type[np.integer[Any]], int] = {kind: code for code, kind in TYPES.items()}
# Both projects write 16-bit ids for vocabularies below this size.
MOST_IN_16_BITS = 65_500
SAMPLED_SEQUENCES = 4096
NAMES = "give the path of the two files, which lie side by side, without .bin or .idx"
MADE_AGAIN = "copy both files again, or prepare the tokens again"

Ids = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TokenIndex:
    """Hold tokens and the place of each document, mapped from the two files."""

    prefix: Path
    tokens: Ids = field(repr=False)
    lengths: NDArray[np.int32] = field(repr=False)  # of sequences, in tokens
    pointers: NDArray[np.int64] = field(repr=False)  # where the bytes of each sequence begin
    # The first sequence of each document, and then the number of sequences.
    document_starts: NDArray[np.int64] = field(repr=False)

    @classmethod
    def open(cls, prefix: Path) -> TokenIndex:
        """Map NAME.bin and NAME.idx; refuse a pair that does not belong together."""
        path = index_path(prefix)
        code, sequences, starts = _header(path)
        tokens = _mapped(tokens_path(prefix), np.dtype(TYPES[code]), 0)
        places = HEADER.size
        lengths = _mapped(path, np.dtype("<i4"), places, sequences)
        pointers = _mapped(path, np.dtype("<i8"), places + 4 * sequences, sequences)
        documents = _mapped(path, np.dtype("<i8"), places + 12 * sequences, starts)
        if not sequences or len(documents) < 2:
            raise DataError(f"{prefix} holds no documents", hint="prepare tokens from more text")
        if documents[0] != 0 or documents[-1] != sequences or pointers[0] != 0:
            raise DataError(
                f"{path} is damaged: its documents end at sequence {documents[-1]} of {sequences}",
                hint=MADE_AGAIN,
            )
        size = tokens.itemsize
        described, there = int(pointers[-1]) + int(lengths[-1]) * size, len(tokens) * size
        if described != there:
            raise DataError(
                f"{path} describes {described:,} bytes of tokens, but {tokens_path(prefix)} has {there:,}: "
                "one is cut off, or they are of two corpora",
                hint=MADE_AGAIN,
            )
        return cls(
            prefix=prefix, tokens=tokens, lengths=lengths, pointers=pointers, document_starts=documents
        )

    @property
    def documents(self) -> int:
        return len(self.document_starts) - 1

    @property
    def identity(self) -> str:
        """Return a cheap digest that tells these tokens from others: of sizes, and of some beginnings."""
        size, count = self.tokens.itemsize, len(self.pointers)
        digest = hashlib.sha256(f"{size} {count} {self.documents} {len(self.tokens)}".encode())
        digest.update(self.pointers[:: max(1, count // SAMPLED_SEQUENCES)].tobytes())
        return digest.hexdigest()

    def stretches(self, documents: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first token of each of these documents, and the number of its tokens."""
        size = self.tokens.itemsize
        first, last = self.document_starts[documents], self.document_starts[documents + 1] - 1
        begins = self.pointers[np.minimum(first, len(self.pointers) - 1)] // size
        ends = self.pointers[last] // size + self.lengths[last]
        # A document without sequences has no tokens.
        return begins, np.where(first <= last, ends - begins, 0)


def index_path(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.idx")


def tokens_path(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.bin")


def type_for(vocabulary_entries: int) -> type[np.integer[Any]]:
    """Return the type that both projects choose for ids of a vocabulary of this size."""
    return np.uint16 if vocabulary_entries < MOST_IN_16_BITS else np.int32


def _header(path: Path) -> tuple[int, int, int]:
    try:
        with open_regular(path) as file:
            head, size = file.read(HEADER.size), path.stat().st_size
    except UnusableFile as error:
        raise DataError(error.message, hint=NAMES) from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", hint=NAMES) from error
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise DataError(f"{path} is no index of tokens: it begins with {head[:9]!r}", hint=MADE_AGAIN)
    _, version, code, sequences, starts = HEADER.unpack(head)
    if version != VERSION or code not in TYPES:
        raise DataError(
            f"{path} has version {version} and ids of type {code}",
            hint=f"only version {VERSION} and the types {', '.join(map(str, TYPES))} are supported",
        )
    if size != HEADER.size + 12 * sequences + 8 * starts:
        raise DataError(
            f"{path} has {size:,} bytes, which does not fit its {sequences:,} sequences and {starts:,} "
            "document starts",
            hint=MADE_AGAIN,
        )
    return code, sequences, starts


def _mapped(path: Path, kind: np.dtype[Any], offset: int, count: int | None = None) -> NDArray[Any]:
    """Map a stretch of a file as a plain array: slices of numpy's memmap cost much more."""
    try:
        with open_regular(path) as file:
            size = path.stat().st_size - offset
            if count is None and size % kind.itemsize:
                raise DataError(
                    f"{path} has {size:,} bytes, but its ids take {kind.itemsize} each", hint=MADE_AGAIN
                )
            length = size // kind.itemsize if count is None else count
            if not length:
                return np.empty(0, kind)
            return np.asarray(np.memmap(file, kind, "r", offset, (length,)))
    except UnusableFile as error:
        raise DataError(error.message, hint=NAMES) from error
    except OSError as error:
        raise DataError(f"cannot map {path}: {error.strerror or error}", hint=NAMES) from error


# write_tokens writes NAME.bin document by document; write_index writes NAME.idx afterwards. Both are synced.
CHUNK_SEQUENCES = 1 << 20
MOST_TOKENS = 2**31 - 1  # of a document: the index stores its length in 32 bits


def write_tokens(
    path: Path, kind: type[np.integer[Any]], batches: Iterable[tuple[Ids, NDArray[np.int64]]]
) -> tuple[str, NDArray[np.int32]]:
    """Write documents end to end, each as one sequence; return the SHA-256, and the length of each.

    A batch is the ids of some documents, end to end, and the number of ids of each.
    """
    written = [np.empty(0, np.int32)]

    def data() -> Iterator[memoryview]:
        for ids, lengths in batches:
            if lengths.max() > MOST_TOKENS:
                raise DataError(
                    f"a document has {lengths.max():,} tokens, but an index allows at most {MOST_TOKENS:,}",
                    hint="cut it into several documents",
                )
            written.append(lengths.astype(np.int32))
            yield np.ascontiguousarray(ids, np.dtype(kind).newbyteorder("<")).data.cast("B")

    return disk.write_new(path, data()).sha256, np.concatenate(written)


def write_index(path: Path, kind: type[np.integer[Any]], lengths: Sequence[NDArray[np.int32]]) -> None:
    """Write the index of documents with these lengths."""
    disk.write_synced(path, _index(np.dtype(kind).itemsize, CODES[kind], lengths))


def _index(size: int, code: int, lengths: Sequence[NDArray[np.int32]]) -> Iterator[bytes]:
    sequences = sum(map(len, lengths))
    yield HEADER.pack(MAGIC, VERSION, code, sequences, sequences + 1)
    for chunk in _chunks(lengths):
        yield chunk.astype("<i4").tobytes()
    begin = 0
    for chunk in _chunks(lengths):
        ends = begin + np.cumsum(chunk, dtype=np.int64) * size
        yield (ends - chunk * np.int64(size)).astype("<i8").tobytes()
        begin = int(ends[-1])
    for first in range(0, sequences + 1, CHUNK_SEQUENCES):
        yield np.arange(first, min(first + CHUNK_SEQUENCES, sequences + 1), dtype="<i8").tobytes()


def _chunks(lengths: Sequence[NDArray[np.int32]]) -> Iterator[NDArray[np.int32]]:
    for part in lengths:
        for first in range(0, len(part), CHUNK_SEQUENCES):
            yield part[first : first + CHUNK_SEQUENCES]
