"""Open a prepared dataset for reading; check its shards against the manifest, and its rows for valid values.

Chunks are read whole, and the last few are cached. Errors name the shard and the row.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.shards import DatasetManifest, ShardRecord, read_manifest
from slipway.containers.data.rows.work import file_digest
from slipway.containers.data.sources.sources import inside
from slipway.containers.data.tokens.engine import layout_of
from slipway.containers.runtime.contract.contract import LaunchContract

if TYPE_CHECKING:
    import h5py


# One rank of a node reads a shard to check it; the other ranks of that attempt wait for its result. A
# temporary file holds a byte for each shard, which the checking rank locks. If the file cannot be made, each
# rank checks for itself.
_WHOLE = b"1"


@dataclass(frozen=True, slots=True)
class NodeChecks:
    """Remember which shards of a dataset are whole, in a file that the ranks of a node share.

    Without a path, nothing is shared.
    """

    path: Path | None = None

    @classmethod
    def of(cls, contract: LaunchContract, digest: str) -> NodeChecks:
        """Share the checks among the node's ranks of one attempt that train on the dataset of this digest."""
        if contract.local_world == 1:
            return cls()
        named = f"{contract.job}/{contract.run}/{contract.attempt}/{contract.main_port}/{digest}"
        name = f"slipway-shards-{os.getuid()}-{hashlib.sha256(named.encode()).hexdigest()[:32]}"
        return cls(Path(tempfile.gettempdir()) / name)

    def is_whole(self, shard: int, check: Callable[[], bool]) -> bool:
        """Return True if another rank has found the shard whole; otherwise check it."""
        descriptor = self._open()
        if descriptor is None:
            return check()
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, shard)
            if os.pread(descriptor, 1, shard) == _WHOLE:
                return True
            found = check()
            if found:
                os.pwrite(descriptor, _WHOLE, shard)
            return found
        finally:
            os.close(descriptor)

    def _open(self) -> int | None:
        """Open the file, and trust it only if it is this user's own."""
        if self.path is None:
            return None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError:
            return None
        found = os.fstat(descriptor)
        if found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o600:
            return descriptor
        os.close(descriptor)
        return None


Column = NDArray[np.signedinteger[Any]]
Rows = dict[str, Column]

KEPT_CHUNKS = 4
OPEN_SHARDS = 16
MADE_AGAIN = "prepare the dataset again with the same arguments: only damaged shards are made again"


@dataclass(slots=True)
class Dataset:
    folder: Path
    manifest: DatasetManifest
    digest: str
    checks: NodeChecks = field(default_factory=NodeChecks)
    _open: OrderedDict[int, h5py.File] = field(default_factory=OrderedDict)
    _checked: set[int] = field(default_factory=set)
    _chunks: OrderedDict[tuple[int, int], Rows] = field(default_factory=OrderedDict)

    @classmethod
    def open(cls, folder: Path) -> Dataset:
        manifest = read_manifest(folder)
        if not manifest.rows:
            raise DataError(f"the dataset {folder} is empty", hint="prepare one with more text")
        for shard in manifest.shards:
            check_size(folder, shard)
        return cls(folder, manifest, manifest.digest)

    @property
    def rows(self) -> int:
        return self.manifest.rows

    def chunk(self, shard: int, begin: int) -> Rows:
        """Return the checked rows of one chunk; the last ones are cached."""
        found = self._chunks.get((shard, begin))
        if found is None:
            found = self._chunks[shard, begin] = self._read(shard, begin)
            if len(self._chunks) > KEPT_CHUNKS:
                self._chunks.popitem(last=False)
        return found

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
        self._chunks.clear()

    def _read(self, shard: int, begin: int) -> Rows:
        record, plan = self.manifest.shards[shard], self.manifest.plan
        end = min(begin + self.manifest.chunk_rows, record.rows)
        if shard not in self._open:
            self._open[shard] = self._opened(shard)
            if len(self._open) > OPEN_SHARDS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(shard)
        file = self._open[shard]
        try:
            rows = {key: file[key][begin:end] for key in layout_of(plan.row_tokens, plan.predictions)}
        except (OSError, KeyError) as error:
            raise DataError(
                f"{record.name}: rows {begin} to {end - 1} cannot be read: {error}", hint=MADE_AGAIN
            ) from error
        check_rows(rows, record.name, begin, plan.vocabulary_entries)
        return rows

    def _opened(self, shard: int) -> h5py.File:
        import h5py

        record = self.manifest.shards[shard]
        path = inside(self.folder, record.name)
        check_size(self.folder, record)
        if shard not in self._checked and not self.checks.is_whole(
            record.number, lambda: file_digest(path) == record.sha256
        ):
            raise DataError(f"{path} is not what the manifest lists: its digest differs", hint=MADE_AGAIN)
        self._checked.add(shard)
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            raise DataError(f"{path} is no HDF5 file: {error}", hint=MADE_AGAIN) from error
        try:
            check_layout(file, record, self.manifest)
        except DataError:
            file.close()
            raise
        return file


def check_size(folder: Path, record: ShardRecord) -> None:
    path = inside(folder, record.name)
    if not path.is_file():
        raise DataError(f"{path} is missing", hint=MADE_AGAIN)
    size = path.stat().st_size
    if size != record.bytes:
        raise DataError(f"{path} has {size} bytes, and the manifest lists {record.bytes}", hint=MADE_AGAIN)


def check_layout(file: h5py.File, record: ShardRecord, manifest: DatasetManifest) -> None:
    for key, (kind, shape) in layout_of(manifest.plan.row_tokens, manifest.plan.predictions).items():
        found = file.get(key)
        if found is None or found.shape != (record.rows, *shape) or found.dtype != kind:
            raise DataError(
                f"{record.name} is a foreign shard: its {key} is {found}, "
                f"not {record.rows} rows of {kind.__name__}",
                hint=MADE_AGAIN,
            )


def check_rows(rows: Mapping[str, Column], name: str, begin: int, entries: int) -> None:
    """Refuse rows that would crash a training step or, worse, train on nonsense."""
    ids, mask, segments = rows["input_ids"], rows["input_mask"], rows["segment_ids"]
    positions, labels, label = (
        rows["masked_lm_positions"],
        rows["masked_lm_ids"],
        rows["next_sentence_labels"],
    )
    used = mask.sum(axis=1, dtype=np.int64)
    is_wrong = {
        "a token outside the vocabulary": ((ids < 0) | (ids >= entries)).any(axis=1),
        "a label outside the vocabulary": ((labels < 0) | (labels >= entries)).any(axis=1),
        "a mask that is not ones and then zeros": (mask != (np.arange(mask.shape[1]) < used[:, None])).any(
            axis=1
        ),
        "a segment other than 0 and 1": ((segments != 0) & (segments != 1)).any(axis=1),
        "a masked position outside its row": ((positions < 0) | (positions >= used[:, None])).any(axis=1),
        "a next-sentence label other than 0 and 1": (label != 0) & (label != 1),
    }
    for what, wrong in is_wrong.items():
        if wrong.any():
            raise DataError(f"{name}: row {begin + int(wrong.argmax())} has {what}", hint=MADE_AGAIN)
