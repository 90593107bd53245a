"""Many shards by one process or several. Which worker makes which shard, and when, changes nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.sharedctypes import Synchronized
from typing import ClassVar

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.progress import PreparationProgress
from slipway.containers.data.rows.work import ShardWork, finished_record, make_shard
from slipway.containers.data.tokens.compiled import library
from slipway.containers.data.tokens.engine_native import NativeEngine

WAIT_SECONDS = 0.5
STOP = -(1 << 62)  # added to the count of bytes, it tells the workers to leave off


class WorkCancelled(Exception):
    """The run ends: nobody waits for this shard."""


@dataclass(slots=True)
class Worker:
    """Hold what a worker process keeps between shards."""

    work: ShardWork
    engine: NativeEngine
    made_bytes: Synchronized[int]
    here: ClassVar[Worker]

    def report(self, count: int) -> None:
        with self.made_bytes:
            self.made_bytes.value += count
            if self.made_bytes.value < 0:
                raise WorkCancelled


def make_shards(work: ShardWork, numbers: Sequence[int], workers: int, progress: PreparationProgress) -> None:
    library()  # compiled once, and refused in one line where it cannot be
    if workers == 1 or len(numbers) < 2:
        engine = NativeEngine(work.settings)
        for number in numbers:
            progress.finished(number, *one_shard(work, engine, number, progress.made))
    else:
        ShardWorkers(work, min(workers, len(numbers)), progress).run(numbers)
    progress.end()


def one_shard(
    work: ShardWork, engine: NativeEngine, number: int, report: Callable[[int], None]
) -> tuple[int, bool]:
    """Make one shard; return how many bytes of text it holds, and True if it had been made before."""
    record = finished_record(work, number)
    if record:
        return record.text_bytes, True
    return make_shard(work, engine, number, report).text_bytes, False


class ShardWorkers:
    def __init__(self, work: ShardWork, workers: int, progress: PreparationProgress) -> None:
        # Spawned, not forked: HDF5 and the caller's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self._made = context.Value("q", 0)
        self._progress = progress
        self._executor = ProcessPoolExecutor(
            workers, mp_context=context, initializer=start_worker, initargs=(work, self._made)
        )

    def run(self, numbers: Sequence[int]) -> None:
        try:
            futures = {self._executor.submit(shard_in_worker, number): number for number in numbers}
            self._wait(futures)
        except BrokenProcessPool:
            raise DataError(
                "a worker was killed, most likely for want of memory",
                hint="give fewer --workers and run again; finished shards are kept",
            ) from None
        finally:
            with self._made:
                self._made.value += STOP
            self._executor.shutdown(cancel_futures=True)

    def _wait(self, futures: dict[Future[tuple[int, bool]], int]) -> None:
        waiting, seen = set(futures), 0
        while waiting:
            done, waiting = wait(waiting, WAIT_SECONDS, FIRST_COMPLETED)
            made = self._made.value
            self._progress.made(made - seen)
            seen = made
            for future in done:
                self._progress.finished(futures[future], *future.result())


def start_worker(work: ShardWork, made: Synchronized[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
    threading.Thread(target=end_with_parent, daemon=True).start()
    Worker.here = Worker(work, NativeEngine(work.settings), made)


def end_with_parent() -> None:
    """End with the parent: one killed with SIGKILL cannot tell its workers, and they would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    sys.stderr.flush()
    os._exit(1)


def shard_in_worker(number: int) -> tuple[int, bool]:
    worker = Worker.here
    return one_shard(worker.work, worker.engine, number, worker.report)
