"""Rows -> an HDF5 shard that h5py, and with it the reference's loader, reads like any other.

Chunks are deflated here by ISA-L, some eight times as fast as by HDF5's own filter, and written past it; the
file still declares shuffle and gzip. ISA-L may give other bytes for the same rows in another process (seen on
chunks of 256 bytes, which zlib deflates for that), so nothing but the record of a file relies on its bytes.
"""

from __future__ import annotations

import errno
import io
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from slipway.containers.data.errors import DataError
from slipway.containers.data.tokens.engine import RowBlock, layout_of

if TYPE_CHECKING:
    import h5py

CHUNK_TOKENS = 1 << 15  # 256 rows of phase 1: 128 kB of input_ids, read and unpacked together by the loader
LEVEL = 1  # deeper costs time and gains under 2 %
SMALL_BYTES = 4096
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Fill = Callable[[int, int, RowBlock, int], None]


def chunk_rows(row_tokens: int) -> int:
    return CHUNK_TOKENS // row_tokens


class ShardFile(io.FileIO):
    """Wrap a file and keep its first disk error to itself: HDF5 crashes on one, or hangs when it closes."""

    error: OSError | None = None

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # FileIO says ReadableBuffer, which has no name at run time
        written = 0
        while written < view.nbytes and self.error is None:
            try:
                written += super().write(view[written:]) or 0
            except OSError as error:
                self.error = error
        return view.nbytes

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0


class ShardWriter:
    """Write rows a block at a time; `add` lets the caller fill each block in place."""

    def __init__(self, path: Path, row_tokens: int, predictions: int) -> None:
        import h5py

        self._path = path
        self._block = RowBlock(chunk_rows(row_tokens), row_tokens, predictions)
        self._used = 0
        self._rows = 0
        self._file = ShardFile(path, "w+")
        self._hdf5 = h5py.File(self._file, "w")
        self._datasets = {
            key: _dataset(self._hdf5, key, self._block.rows, shape, kind)
            for key, (kind, shape) in layout_of(row_tokens, predictions).items()
        }

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hdf5.close()
        self._file.close()

    @property
    def rows(self) -> int:
        return self._rows + self._used

    def add(self, count: int, fill: Fill) -> None:
        done = 0
        while done < count:
            step = min(count - done, self._block.rows - self._used)
            fill(done, step, self._block, self._used)
            done += step
            self._used += step
            if self._used == self._block.rows:
                self._write_block()

    def finish(self) -> None:
        """Write what is left and close; the file is whole on the disk, or an error says why not."""
        if self._used:
            for array in self._block.arrays.values():
                array[self._used :] = 0
            self._write_block()
        for dataset in self._datasets.values():
            dataset.resize(self._rows, axis=0)
        self._hdf5.close()
        self._check_disk()
        os.fsync(self._file.fileno())

    def _write_block(self) -> None:
        begin, self._rows, self._used = self._rows, self._rows + self._used, 0
        for key, array in self._block.arrays.items():
            dataset = self._datasets[key]
            data = array.view(np.uint8).reshape(-1, 4).T.tobytes() if array.itemsize == 4 else array.tobytes()
            dataset.resize(begin + self._block.rows, axis=0)
            dataset.id.write_direct_chunk((begin, *(0,) * (array.ndim - 1)), _deflated(data))
        self._check_disk()

    def _check_disk(self) -> None:
        error = self._file.error
        if error is not None and error.errno in OUT_OF_SPACE:
            raise DataError(
                f"no space is left for {self._path.name}: {error.strerror}",
                hint="free some and run the same command again; finished shards are kept",
            )
        if error is not None:
            raise DataError(f"cannot write {self._path}: {error.strerror}") from error


def _deflated(data: bytes) -> bytes:
    from isal import isal_zlib

    return bytes((zlib if len(data) < SMALL_BYTES else isal_zlib).compress(data, LEVEL))


def _dataset(
    file: h5py.File, key: str, rows: int, shape: tuple[int, ...], kind: type[np.int32] | type[np.int8]
) -> h5py.Dataset:
    return file.create_dataset(
        key,
        shape=(0, *shape),
        maxshape=(None, *shape),
        chunks=(rows, *shape),
        dtype=kind,
        compression="gzip",
        shuffle=kind is np.int32,
    )
