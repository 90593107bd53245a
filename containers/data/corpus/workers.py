"""All parts of a share, by one process or several: which one makes which part changes nothing."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol

from slipway.containers.data.corpus.parts import Part, bytes_of
from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.work import PreparationProgress, end_with_parent


class PartWork(Protocol):
    """Make any part of an input, in any process: it is pickled."""

    @property
    def parts(self) -> tuple[Part, ...]: ...

    def is_made(self, number: int) -> bool:
        """Return True if the part needs no more work."""

    def make(self, number: int) -> None:
        """Make the part, whole or not at all."""


def make_parts(work: PartWork, numbers: Sequence[int], workers: int, progress: PreparationProgress) -> None:
    """Make the parts that are missing; a failure leaves those that are made."""
    waiting = []
    for number in numbers:
        if work.is_made(number):
            progress.finished(number, bytes_of(work.parts[number]), was_kept=True)
        else:
            waiting.append(number)
    if workers == 1 or len(waiting) < 2:
        for number in waiting:
            work.make(number)
            _tell(progress, work, number)
    else:
        _make_together(work, waiting, min(workers, len(waiting)), progress)
    progress.end()


def _make_together(
    work: PartWork, numbers: Sequence[int], workers: int, progress: PreparationProgress
) -> None:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start)
    try:
        futures = {pool.submit(work.make, number): number for number in numbers}
        for future in as_completed(futures):
            future.result()
            _tell(progress, work, futures[future])
    except BrokenProcessPool:
        raise DataError(
            "a worker was killed, most likely for want of memory",
            hint="use a machine with more memory and run again; finished parts are kept",
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _tell(progress: PreparationProgress, work: PartWork, number: int) -> None:
    progress.made(bytes_of(work.parts[number]))
    progress.finished(number, 0, was_kept=False)


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
    threading.Thread(target=end_with_parent, daemon=True).start()
