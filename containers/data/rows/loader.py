"""Load batches of rows for one rank: shuffled anew each epoch, resumable exactly, read ahead by a thread.

    with Loader(Dataset.open(folder), Reading(rank=0, world=8, global_batch=256)) as loader:
        for batch in loader: train(batch.arrays); save(batch.cursor)

All ranks together take the next `global_batch` rows of one shuffled epoch, so a run can resume on another
number of ranks. The rows after the last whole global batch of an epoch are left out.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.dataset import Dataset, Rows
from slipway.containers.data.tokens.rng import permutation

AHEAD = 4  # batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Say how far training has come in the data, for checkpoints. It holds for any number of ranks."""

    dataset: str
    seed: int
    epoch: int = 0
    rows: int = 0
    """Rows of this epoch that all ranks together have taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    rank: int
    world: int
    global_batch: int
    seed: int = 12345

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise DataError(
                f"there is no rank {self.rank} of {self.world}",
                hint="ranks count from 0 and stay below the world size",
            )
        if self.global_batch < 1 or self.global_batch % self.world:
            raise DataError(
                f"a global batch of {self.global_batch} rows cannot be shared by {self.world} ranks",
                hint="give a multiple of the number of ranks",
            )

    @property
    def rows_per_rank(self) -> int:
        return self.global_batch // self.world


@dataclass(frozen=True, slots=True)
class Batch:
    arrays: Rows
    cursor: Cursor
    """The position to resume from after training on this batch."""


class Loader:
    def __init__(self, dataset: Dataset, reading: Reading, cursor: Cursor | None = None) -> None:
        self._dataset, self._reading = dataset, reading
        self._cursor = cursor or Cursor(dataset=dataset.digest, seed=reading.seed)
        if self._cursor.dataset != dataset.digest:
            ours, theirs = dataset.digest[:12], self._cursor.dataset[:12]
            raise DataError(
                f"the checkpoint was trained on dataset {theirs}, but {dataset.folder} is {ours}",
                hint="resume on the same dataset, or start again",
            )
        if self._cursor.seed != reading.seed:
            raise DataError(
                f"the checkpoint was shuffled with seed {self._cursor.seed}, not {reading.seed}",
                hint="resume with the same seed",
            )
        if not self.batches_per_epoch:
            raise DataError(
                f"{dataset.folder} has {dataset.rows} rows, fewer than one global batch of "
                f"{reading.global_batch}: some of the {reading.world} ranks would get none",
                hint="prepare more text or duplicates, or make the batch smaller",
            )
        self._batches: queue.Queue[Batch | Exception] = queue.Queue(AHEAD)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._read_ahead, name="loader", daemon=True)
        self._thread.start()

    @property
    def batches_per_epoch(self) -> int:
        return self._dataset.rows // self._reading.global_batch

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Batch]:
        """Yield batch after batch, epoch after epoch, without end."""
        while not self._is_closed.is_set():
            found = self._batches.get()
            if isinstance(found, Exception):
                raise found
            yield found

    def epoch(self) -> Iterator[Batch]:
        """Yield batches to the end of the epoch that the next batch belongs to."""
        for batch in self:
            yield batch
            if batch.cursor.rows == 0:
                return

    def close(self) -> None:
        self._is_closed.set()
        while self._thread.is_alive():
            # Empty the queue, so that a thread that waits to put its batch sees that it is closed.
            with suppress(queue.Empty):
                self._batches.get(timeout=0.01)
        self._dataset.close()

    def _read_ahead(self) -> None:
        try:
            for batch in self._all_batches(self._cursor):
                self._batches.put(batch)
                if self._is_closed.is_set():
                    return
        except Exception as error:  # noqa: BLE001  # raised when the next batch is asked for
            self._batches.put(error)

    def _all_batches(self, cursor: Cursor) -> Iterator[Batch]:
        reading, manifest = self._reading, self._dataset.manifest
        shard_rows = [shard.rows for shard in manifest.shards]
        while True:
            order = EpochOrder(shard_rows, manifest.chunk_rows, cursor.seed, cursor.epoch)
            while cursor.rows + reading.global_batch <= self._dataset.rows:
                start = cursor.rows + reading.rank * reading.rows_per_rank
                arrays = self._gather(order, start, start + reading.rows_per_rank)
                cursor = self._after(cursor)
                yield Batch(arrays, cursor)
                if cursor.rows == 0:
                    break
            else:
                cursor = replace(cursor, epoch=cursor.epoch + 1, rows=0)

    def _after(self, cursor: Cursor) -> Cursor:
        taken = cursor.rows + self._reading.global_batch
        if taken + self._reading.global_batch > self._dataset.rows:
            return replace(cursor, epoch=cursor.epoch + 1, rows=0)
        return replace(cursor, rows=taken)

    def _gather(self, order: EpochOrder, start: int, stop: int) -> Rows:
        parts = [
            {
                key: array[stretch.rows]
                for key, array in self._dataset.chunk(stretch.shard, stretch.begin).items()
            }
            for stretch in order.stretches(start, stop)
        ]
        # This copies: the caller may change its batch without changing the cached chunks.
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


# The order of an epoch's rows: chunks in a random order, and the rows of each chunk in a random order. It
# depends only on seed and epoch, so one number is a position in the epoch for any number of ranks.
OF_CHUNKS, OF_ROWS = 5, 6


@dataclass(frozen=True, slots=True)
class Stretch:
    """Select rows of the chunk that begins at row `begin` of a shard, in this order."""

    shard: int
    begin: int
    rows: NDArray[np.int64]


class EpochOrder:
    def __init__(self, shard_rows: Sequence[int], chunk_rows: int, seed: int, epoch: int) -> None:
        self._seed, self._epoch = seed, epoch
        counts = [-(-rows // chunk_rows) for rows in shard_rows]
        shards = np.repeat(np.arange(len(counts)), counts)
        begins = np.concatenate([np.arange(count) * chunk_rows for count in counts])
        sizes = np.minimum(np.repeat(shard_rows, counts) - begins, chunk_rows)
        self._order = permutation(len(shards), seed, OF_CHUNKS, epoch)
        self._shards, self._begins, self._sizes = shards, begins, sizes[self._order]
        self._ends = np.cumsum(self._sizes)

    def stretches(self, start: int, stop: int) -> Iterator[Stretch]:
        """Yield the rows from position `start` to position `stop` of the epoch."""
        place = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            end, size, chunk = int(self._ends[place]), int(self._sizes[place]), int(self._order[place])
            rows = permutation(size, self._seed, OF_ROWS, self._epoch, chunk)
            first = start - (end - size)
            taken = rows[first : first + stop - start]
            yield Stretch(int(self._shards[chunk]), int(self._begins[chunk]), taken)
            start += len(taken)
            place += 1
