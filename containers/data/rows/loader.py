"""Batches of rows for one rank: shuffled again each epoch, resumed exactly, read ahead by a thread.

    with Loader(Dataset.open(folder), Reading(rank=0, world=8, global_batch=256)) as loader:
        for batch in loader: train(batch.arrays); save(batch.cursor)

All ranks together take the next `global_batch` rows of one shuffled epoch, so a run may go on with another
number of ranks. What is left of an epoch when no whole global batch remains is left out of it.
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
    """Say where training stands; kept in the checkpoint. It does not depend on the number of ranks."""

    dataset: str
    seed: int
    epoch: int = 0
    rows: int = 0
    """Of this epoch, taken by all ranks together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    rank: int
    world: int
    global_batch: int
    seed: int = 12345

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise DataError(
                f"rank {self.rank} of {self.world}", hint="ranks count from 0 and stay below the world size"
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
    """Where to resume once this batch has been trained on."""


class Loader:
    def __init__(self, dataset: Dataset, reading: Reading, cursor: Cursor | None = None) -> None:
        self._dataset, self._reading = dataset, reading
        self._cursor = cursor or Cursor(dataset=dataset.digest, seed=reading.seed)
        self._check()
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
            # Make room for a thread that waits to hand over its batch, so that it sees the end.
            with suppress(queue.Empty):
                self._batches.get(timeout=0.01)
        self._dataset.close()

    def _check(self) -> None:
        if self._cursor.dataset != self._dataset.digest:
            ours, theirs = self._dataset.digest[:12], self._cursor.dataset[:12]
            raise DataError(
                f"the checkpoint was trained on dataset {theirs}, and {self._dataset.folder} is {ours}",
                hint="resume on the same dataset, or start again",
            )
        if self._cursor.seed != self._reading.seed:
            raise DataError(
                f"the checkpoint was shuffled with seed {self._cursor.seed}, not {self._reading.seed}",
                hint="resume with the same seed",
            )
        if not self.batches_per_epoch:
            raise DataError(
                f"{self._dataset.folder} has {self._dataset.rows} rows, fewer than one global batch of "
                f"{self._reading.global_batch}: some of {self._reading.world} ranks would have none",
                hint="prepare more text or duplicates, or make the batch smaller",
            )

    def _read_ahead(self) -> None:
        try:
            for batch in self._all_batches(self._cursor):
                self._batches.put(batch)
                if self._is_closed.is_set():
                    return
        except Exception as error:  # noqa: BLE001  # told to whoever asks for the next batch
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
        # A copy: the chunks stay as they were, whatever the caller does to its batch.
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


# In which order an epoch's rows come: chunks in a random order, and the rows of each in a random order.
# A function of seed and epoch alone, so a place in the epoch is one number whatever the number of ranks.
OF_CHUNKS, OF_ROWS = 5, 6


@dataclass(frozen=True, slots=True)
class Stretch:
    """Select rows of one chunk: of shard `shard`, from row `begin` on, in this order."""

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
        """Yield the rows from place `start` to place `stop` of the epoch."""
        place = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            end, size, chunk = int(self._ends[place]), int(self._sizes[place]), int(self._order[place])
            rows = permutation(size, self._seed, OF_ROWS, self._epoch, chunk)
            first = start - (end - size)
            taken = rows[first : first + stop - start]
            yield Stretch(int(self._shards[chunk]), int(self._begins[chunk]), taken)
            start += len(taken)
            place += 1
