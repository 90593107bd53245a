"""Prepare data in parts: claim the output folder, make the parts in worker processes, and report progress.

To prepare another kind of data, write a PartWork and give it to `make_parts`. The result does not depend on
which process makes which part, and a run that ends early keeps the parts that it finished.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import ClassVar, Protocol, TextIO, TypeVar

from slipway.containers.data.errors import DataError, unwritable
from slipway.containers.data.text.documents import decoded, own_neighbour, read_json, write_json

Report = Callable[[int], None]  # is told how many more bytes of the input are done


class PartWork(Protocol):
    """Make any part of an input, in any process; a PartWork must be picklable."""

    def bytes_of(self, number: int) -> int:
        """Return how many bytes of the input the part reads."""

    def is_made(self, number: int) -> bool:
        """Return True if the part needs no more work."""

    def make(self, number: int, report: Report) -> None:
        """Make the part, whole or not at all; `report` may raise, which ends the work."""


def claim(folder: Path, at: Path, plan: Mapping[str, object], what: str) -> None:
    """Claim the folder for a plan: write it to `at`; refuse a folder that holds `what` of another plan."""
    if not at.exists():
        folder.mkdir(parents=True, exist_ok=True)
        others = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
        if others and not at.exists():
            raise DataError(f"{folder} holds {min(others)!r} but no {at.name}", hint="set another output")
        try:
            write_json(at, plan)
        except DataError:
            if not at.exists():  # if it exists, another job of the array wrote it first
                raise
    theirs = read_json(at)
    differing = [name for name, ours in plan.items() if theirs.get(name) != ours]
    if differing:
        name = differing[0]
        raise DataError(
            f"{folder} holds {what} with {name} {theirs.get(name)}, but this run has {name} {plan[name]}",
            hint="set another output, or remove that folder",
        )


# The hidden folder in which a corpus, or its tokens, keeps the plan and the records of the parts.
MADE = ".made"


def plan_path(folder: Path) -> Path:
    return folder / MADE / "plan.json"


def record_path(folder: Path, number: int) -> Path:
    return folder / MADE / f"{number:05}.json"


class PlannedRecord(Protocol):
    @property
    def number(self) -> int: ...

    @property
    def plan(self) -> str:
        """Return the digest of the plan that made the part."""


R = TypeVar("R", bound=PlannedRecord)


def read_record(record_type: type[R], path: Path, number: int, plan: str) -> R | None:
    """Return the record of a part, or None if it is absent, damaged, or of another part or plan."""
    try:
        record = decoded(record_type, read_json(path), path.parent) if path.exists() else None
    except DataError:
        return None
    return record if record is not None and (record.number, record.plan) == (number, plan) else None


@contextmanager
def unfinished(path: Path, hint: str) -> Iterator[Path]:
    """Yield a temporary file beside `path` to write to, and remove the leftovers of this and earlier runs."""
    for left_over in path.parent.glob(f".{path.name}.*"):
        left_over.unlink(missing_ok=True)
    temporary = own_neighbour(path)
    try:
        yield temporary
    except OSError as error:
        raise unwritable(path, error, hint=hint) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def lone_process(lock: Path) -> Iterator[None]:
    """Wait until no other process holds the lock, and hold it."""
    with lock.open("w") as file:
        with suppress(OSError):  # without locks in the file system, two processes write equal files
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


WAIT_SECONDS = 0.5
STOP = -(1 << 62)  # added to the shared count of bytes: a negative count tells the workers to stop


class WorkCancelled(Exception):
    """The run is ending, and nobody waits for this part."""


@dataclass(slots=True)
class Worker:
    """Hold what a worker process keeps between parts."""

    work: PartWork
    made_bytes: Synchronized[int]
    here: ClassVar[Worker]

    def report(self, count: int) -> None:
        with self.made_bytes:
            self.made_bytes.value += count
            if self.made_bytes.value < 0:
                raise WorkCancelled


def make_parts(work: PartWork, numbers: Sequence[int], workers: int, name: str) -> None:
    """Make the parts that are missing; a failure keeps the parts that are finished."""
    total = sum(map(work.bytes_of, numbers))
    progress = PreparationProgress(name=name, total_bytes=total, parts=len(numbers))
    if workers == 1 or len(numbers) < 2:
        for number in numbers:
            progress.finished(*_one_part(work, number, progress.made))
    else:
        _make_together(work, numbers, min(workers, len(numbers)), progress)
    progress.end()


def _one_part(work: PartWork, number: int, report: Report) -> tuple[int, bool]:
    """Make one part; return how many bytes it reads, and True if it had been made before."""
    was_made = work.is_made(number)
    if not was_made:
        work.make(number, report)
    return work.bytes_of(number), was_made


def _make_together(
    work: PartWork, numbers: Sequence[int], workers: int, progress: PreparationProgress
) -> None:
    # Spawned, not forked: HDF5 and the caller's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    made = context.Value("q", 0)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=(work, made))
    try:
        waiting, seen = {pool.submit(_in_worker, number) for number in numbers}, 0
        while waiting:
            done, waiting = wait(waiting, WAIT_SECONDS, FIRST_COMPLETED)
            so_far = made.value
            progress.made(so_far - seen)
            seen = so_far
            for future in done:
                progress.finished(*future.result())
    except BrokenProcessPool:
        raise DataError(
            "a worker was killed, most likely because memory ran out",
            hint="use fewer workers or a machine with more memory and run again; finished parts are kept",
        ) from None
    finally:
        with made:
            made.value += STOP
        pool.shutdown(cancel_futures=True)


def _start(work: PartWork, made: Synchronized[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    Worker.here = Worker(work, made)


def _end_with_parent() -> None:
    """Exit when the parent is gone: one that is killed cannot tell its workers, and they would hang."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    sys.stderr.flush()
    os._exit(1)


def _in_worker(number: int) -> tuple[int, bool]:
    return _one_part(Worker.here.work, number, Worker.here.report)


# Progress goes to stderr: a terminal shows one line that is rewritten, a log gets a line now and then.
TERMINAL_SECONDS = 0.5
PLAIN_SECONDS = 10.0
MB = 1e6


@dataclass(slots=True, kw_only=True)
class PreparationProgress:
    """Print how far a preparation has come."""

    name: str
    total_bytes: int
    parts: int
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    now: Callable[[], float] = time.monotonic
    made_bytes: int = 0
    kept_bytes: int = 0  # an earlier run made them
    finished_parts: int = 0
    started: float = field(init=False)
    told: float = field(init=False)  # when the last line was printed

    def __post_init__(self) -> None:
        self.started = self.told = self.now()

    def say(self, line: str) -> None:
        print(f"{self.name}: {line}", file=self.stream, flush=True)

    def made(self, count: int) -> None:
        self.made_bytes += count
        self._tell_if_due()

    def finished(self, text_bytes: int, was_made: bool) -> None:
        self.finished_parts += 1
        if was_made:
            self.kept_bytes += text_bytes
        self._tell_if_due()

    def end(self) -> None:
        if self.stream.isatty():
            self.stream.write("\r\x1b[K")
        kept = f", {self.kept_bytes / MB:.1f} MB of it made before" if self.kept_bytes else ""
        self.say(f"{self.line()}{kept}")

    def line(self) -> str:
        done, rate = self.made_bytes + self.kept_bytes, self.rate
        share = done / self.total_bytes if self.total_bytes else 1.0
        words = [
            f"{share:.0%} of {self.total_bytes / MB:.1f} MB",
            f"{self.finished_parts}/{self.parts} parts",
            f"{rate / MB:.1f} MB/s",
        ]
        if done < self.total_bytes and rate:
            words.append(f"{in_words((self.total_bytes - done) / rate)} left")
        return ", ".join(words)

    @property
    def rate(self) -> float:
        """Return bytes per second of this run; parts of an earlier run took no time."""
        seconds = self.now() - self.started
        return self.made_bytes / seconds if seconds > 0 else 0.0

    def _tell_if_due(self) -> None:
        is_terminal = self.stream.isatty()
        if self.now() - self.told < (TERMINAL_SECONDS if is_terminal else PLAIN_SECONDS):
            return
        self.told = self.now()
        if is_terminal:
            self.stream.write(f"\r{self.name}: {self.line()}\x1b[K")
            self.stream.flush()
        else:
            self.say(self.line())


def in_words(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {whole % 60:02} s" if minutes else f"{whole} s"
