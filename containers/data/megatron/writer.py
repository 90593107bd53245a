"""Writes NAME.bin as documents come, and NAME.idx when they end: synced, and known by digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.index import CODES, HEADER, MAGIC, VERSION, Ids

CHUNK_SEQUENCES = 1 << 20
MOST_TOKENS = 2**31 - 1  # of a document: its length has 32 bits


class TokenWriter:
    """Write documents end to end; each is one sequence."""

    def __init__(self, path: Path, kind: type[np.integer[Any]]) -> None:
        self._path, self._kind = path, kind
        self._digest = hashlib.sha256()
        self._lengths: list[NDArray[np.int32]] = []
        self.tokens = 0

    def __enter__(self) -> TokenWriter:
        self._file = self._path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        with self._file as file:
            file.flush()
            os.fsync(file.fileno())

    def add(self, ids: Ids, lengths: NDArray[np.int64]) -> None:
        """Write these documents: `ids` holds them end to end, `lengths` says how many ids each has."""
        if len(lengths) and lengths.max() > MOST_TOKENS:
            raise DataError(
                f"a document has {lengths.max():,} tokens, and an index counts to {MOST_TOKENS:,}",
                hint="cut it into several documents",
            )
        data = np.ascontiguousarray(ids, np.dtype(self._kind).newbyteorder("<")).data.cast("B")
        self._file.write(data)
        self._digest.update(data)
        self._lengths.append(lengths.astype(np.int32))
        self.tokens += len(ids)

    @property
    def lengths(self) -> NDArray[np.int32]:
        return np.concatenate([np.empty(0, np.int32), *self._lengths])

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def write_index(path: Path, kind: type[np.integer[Any]], lengths: Sequence[NDArray[np.int32]]) -> str:
    """Write the index of documents of these lengths, one array after the other; return its SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for data in _index(np.dtype(kind).itemsize, CODES[kind], lengths):
            file.write(data)
            digest.update(data)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


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
