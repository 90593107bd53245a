"""Describe a dataset in its plan, records and manifest, and write a shard as HDF5.

The folder of a dataset:  plan.json (written first)  input.json  records/00003.json (one per finished shard)
shard-00003.hdf5  manifest.json (written last)
"""

from __future__ import annotations

import errno
import io
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from slipway.containers.data.errors import DataError, unwritable
from slipway.containers.data.sources.sources import InputOrigin, Source, check_name
from slipway.containers.data.text.documents import decoded, digest_of, read_json
from slipway.containers.data.tokens.engine import MASK, RowBlock, TokenSettings, layout_of

# Increase it when the same input and settings give other rows: old shards are then refused, not mixed in.
FORMAT = 1
PLAN = "plan.json"
DIGEST = re.compile(r"[0-9a-f]{64}")


class NewerDataset(DataError):
    """A newer Slipway prepared this dataset: it is sound, so do not read, repair or overwrite it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlan:
    """Hold everything that decides the rows. Two runs into one folder must agree on it."""

    format: int
    phase: int
    row_tokens: int
    predictions: int
    seed: int
    duplicates: int
    shards: int
    has_sentence_per_line: bool
    cased: bool
    vocabulary_sha256: str
    vocabulary_entries: int
    mask_token: int
    input_sha256: str
    """The digest of the names and sizes of the input's files."""

    @property
    def digest(self) -> str:
        return digest_of(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    plan: str
    number: int
    name: str
    rows: int
    bytes: int
    sha256: str
    text_bytes: int
    text_sha256: str
    input_version: str
    """The digest of the objects that the text was read from; empty for local files."""
    documents: int
    sentences: int
    tokens: int
    unknown: int

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.rows < 0 or self.bytes < 0 or not DIGEST.fullmatch(self.sha256):
            raise DataError(f"the record of {self.name} is damaged", hint="prepare the dataset again")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetManifest:
    """Describe a finished dataset: its plan, its input and its shards."""

    plan: RowPlan
    origin: InputOrigin
    chunk_rows: int
    shards: tuple[ShardRecord, ...]

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def digest(self) -> str:
        """Return the identity of the dataset; a resumed run refuses any other.

        Plan and text decide the rows. The digests of the shard files are left out: another release of HDF5 or
        ISA-L writes the same rows as other bytes.
        """
        texts = [(shard.number, shard.rows, shard.text_sha256) for shard in self.shards]
        return digest_of([self.plan.digest, texts])


def plan_of(settings: TokenSettings, source: Source, shards: int) -> RowPlan:
    vocabulary = settings.vocabulary
    files = [[file.name, file.size_bytes] for file in source.files]
    return RowPlan(
        format=FORMAT,
        phase=settings.phase,
        row_tokens=settings.row_tokens,
        predictions=settings.predictions,
        seed=settings.seed,
        duplicates=settings.duplicates,
        shards=shards,
        has_sentence_per_line=settings.has_sentence_per_line,
        cased=settings.cased,
        vocabulary_sha256=vocabulary.digest,
        vocabulary_entries=len(vocabulary.entries),
        mask_token=vocabulary.numbers[MASK],
        input_sha256=digest_of(files),
    )


def shard_name(number: int) -> str:
    return f"shard-{number:05}.hdf5"


def record_path(folder: Path, number: int) -> Path:
    return folder / "records" / f"{number:05}.json"


def as_json(manifest: DatasetManifest) -> dict[str, object]:
    content = {
        "plan": asdict(manifest.plan),
        "input": asdict(manifest.origin),
        "chunk_rows": manifest.chunk_rows,
        "rows": manifest.rows,
        "dataset": manifest.digest,
        "shards": [asdict(shard) for shard in manifest.shards],
    }
    return {**content, "sha256": digest_of(content)}


def read_plan(folder: Path) -> RowPlan:
    path = folder / PLAN
    content = read_json(path)
    refuse_newer(content, path)
    return decoded(RowPlan, content, folder)


def refuse_newer(plan: object, path: Path) -> None:
    """Raise NewerDataset, before any other check: a later format may have other fields."""
    found = plan.get("format") if isinstance(plan, dict) else None
    if type(found) is int and found > FORMAT:
        raise NewerDataset(
            f"{path} has format {found}, but this Slipway reads format {FORMAT}",
            hint="use the Slipway that prepared it or a newer one, or prepare the text in another folder",
        )


def read_manifest(folder: Path) -> DatasetManifest:
    content = read_json(folder / "manifest.json")
    refuse_newer(content.get("plan"), folder / "manifest.json")
    shards = content.get("shards")
    plan = decoded(RowPlan, content.get("plan"), folder)
    if not isinstance(shards, list) or plan.format != FORMAT:
        raise DataError(f"{folder}/manifest.json has another format", hint="prepare the dataset again")
    manifest = DatasetManifest(
        plan=plan,
        origin=decoded(InputOrigin, content.get("input"), folder),
        chunk_rows=chunk_rows(plan.row_tokens),
        shards=tuple(decoded(ShardRecord, shard, folder) for shard in shards),
    )
    check_shards(manifest, folder)
    if content != as_json(manifest):
        raise DataError(
            f"{folder}/manifest.json was changed: it does not match its digest",
            hint="write it again: python -m slipway.containers.data.rows.prepare",
        )
    return manifest


def check_shards(manifest: DatasetManifest, folder: Path) -> None:
    names = [shard.name for shard in manifest.shards]
    numbers = [shard.number for shard in manifest.shards]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice or len(set(numbers)) < len(numbers):
        raise DataError(
            f"{folder} lists {min(twice, default='a shard')} twice", hint="prepare the dataset again"
        )
    foreign = [shard.name for shard in manifest.shards if shard.plan != manifest.plan.digest]
    if foreign:
        raise DataError(
            f"{folder}/{foreign[0]} was made by another plan", hint="prepare it again in a folder of its own"
        )


# Write rows as an HDF5 shard that h5py, and so the reference's loader, can read. ISA-L deflates the chunks,
# eight times as fast as HDF5's own filter, which is bypassed; the file still declares shuffle and gzip. ISA-L
# may give other bytes for the same rows in another process (seen on chunks of 256 bytes, so zlib deflates
# small ones). So only the record of a file relies on the file's bytes.
CHUNK_TOKENS = 1 << 15  # 256 rows of phase 1: 128 kB of input_ids, which the loader unpacks together
LEVEL = 1  # a higher level takes more time and saves less than 2 %
SMALL_BYTES = 4096
ROOM_BLOCKS = 64  # datasets grow by so many blocks: growing by one takes HDF5 as long as filling it
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Fill = Callable[[int, int, RowBlock, int], None]


def chunk_rows(row_tokens: int) -> int:
    return CHUNK_TOKENS // row_tokens


class ShardFile(io.FileIO):
    """Hide disk errors from HDF5, which crashes on one or hangs at closing; `error` keeps the first."""

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
        self._room = 0  # rows that the datasets have room for
        self._file = ShardFile(path, "w+")
        self._hdf5 = h5py.File(self._file, "w")
        self._datasets = {
            key: self._hdf5.create_dataset(
                key,
                shape=(0, *shape),
                maxshape=(None, *shape),
                chunks=(self._block.rows, *shape),
                dtype=kind,
                compression="gzip",
                shuffle=kind is np.int32,
            )
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
        """Write the last rows and close; the file is then whole on disk, or a DataError is raised."""
        if self._used:
            for array in self._block.arrays.values():
                array[self._used :] = 0
            self._write_block()
        self._resize(self._rows)
        self._hdf5.close()
        self._check_disk()
        os.fsync(self._file.fileno())

    def _write_block(self) -> None:
        from isal import isal_zlib

        begin, self._rows, self._used = self._rows, self._rows + self._used, 0
        if self._rows > self._room:
            self._room += ROOM_BLOCKS * self._block.rows
            self._resize(self._room)
        for key, array in self._block.arrays.items():
            dataset = self._datasets[key]
            data = array.view(np.uint8).reshape(-1, 4).T.tobytes() if array.itemsize == 4 else array.tobytes()
            packed = bytes((zlib if len(data) < SMALL_BYTES else isal_zlib).compress(data, LEVEL))
            dataset.id.write_direct_chunk((begin, *(0,) * (array.ndim - 1)), packed)
        self._check_disk()

    def _resize(self, rows: int) -> None:
        for dataset in self._datasets.values():
            dataset.resize(rows, axis=0)

    def _check_disk(self) -> None:
        error = self._file.error
        if error is not None and error.errno in OUT_OF_SPACE:
            raise DataError(
                f"no space is left for {self._path.name}: {error.strerror}",
                hint="free some space and run the same command again; finished shards are kept",
            )
        if error is not None:
            raise unwritable(self._path, error) from error
