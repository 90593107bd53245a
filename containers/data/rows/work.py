"""One shard: kept when it is whole and still belongs to its text, else made from its pieces."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from io import BufferedReader
from multiprocessing import connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import ClassVar, TextIO

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.shards import RowPlan, ShardRecord, ShardWriter, record_path, shard_name
from slipway.containers.data.sources.pieces import Piece, Text, units_of
from slipway.containers.data.sources.sources import Source
from slipway.containers.data.text.documents import decoded, read_json, write_json
from slipway.containers.data.tokens.engine import SENTENCE_PER_LINE, Counts, TokenSettings, check_text_fits
from slipway.containers.data.tokens.engine_native import NativeEngine, library
from slipway.containers.data.tokens.rng import OF_UNIT, Stream
from slipway.containers.runtime.named_files import open_regular

READ_BYTES = 8 << 20
Report = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWork:
    """Hold what every worker needs to make any shard."""

    source: Source
    settings: TokenSettings
    folder: Path
    plan: RowPlan
    shards: tuple[tuple[Piece, ...], ...]
    input_version: str


@dataclass(frozen=True, slots=True)
class Made:
    counts: Counts
    rows: int
    text_bytes: int
    text_sha256: str


def finished_record(work: ShardWork, number: int) -> ShardRecord | None:
    """Return the record of a shard that needs no more work; None if it is missing, damaged or made from
    another text."""
    path = record_path(work.folder, number)
    if not path.exists():
        return None
    try:
        record = decoded(ShardRecord, read_json(path), work.folder)
    except DataError:
        return None
    if record.number != number or record.plan != work.plan.digest or not is_whole(work.folder, record):
        return None
    return _of_this_text(work, record)


def _of_this_text(work: ShardWork, record: ShardRecord) -> ShardRecord | None:
    """Return the record if it was made from this text. Equal ETags are equal text; anything else is read
    again."""
    if work.input_version and record.input_version == work.input_version:
        return record
    if text_digest(work, record.number) != record.text_sha256:
        return None
    if record.input_version != work.input_version:
        record = replace(record, input_version=work.input_version)
        write_json(record_path(work.folder, record.number), asdict(record))
    return record


def is_whole(folder: Path, record: ShardRecord, with_digest: bool = True) -> bool:
    path = folder / record.name
    if not record.rows:
        return True  # text without a pair of sentences makes no file
    if not path.is_file() or path.stat().st_size != record.bytes:
        return False
    return not with_digest or file_digest(path) == record.sha256


def make_shard(work: ShardWork, engine: NativeEngine, number: int, report: Report) -> ShardRecord:
    path = work.folder / shard_name(number)
    for left_over in work.folder.glob(f".{path.name}.*"):
        left_over.unlink(missing_ok=True)
    part = work.folder / f".{path.name}.{os.getpid()}"
    try:
        made = write_rows(work, engine, number, part, report)
        record = record_of(work, number, made, part)
        if made.rows:
            part.replace(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}", hint="finished shards are kept"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    write_json(record_path(work.folder, number), asdict(record))
    return record


def record_of(work: ShardWork, number: int, made: Made, part: Path) -> ShardRecord:
    return ShardRecord(
        plan=work.plan.digest,
        number=number,
        name=shard_name(number),
        rows=made.rows,
        bytes=part.stat().st_size if made.rows else 0,
        sha256=file_digest(part),
        text_bytes=made.text_bytes,
        text_sha256=made.text_sha256,
        input_version=work.input_version,
        **asdict(made.counts),
    )


def write_rows(work: ShardWork, engine: NativeEngine, number: int, part: Path, report: Report) -> Made:
    settings, digest, counts, size = work.settings, hashlib.sha256(), Counts(), 0
    with ShardWriter(part, settings.row_tokens, settings.predictions) as writer:
        for unit_number, unit in enumerate(units_of(work.source, list(work.shards[number]))):
            counts += add_unit(engine, settings, unit)
            check_text_fits(counts, settings.vocabulary.name)
            stream = Stream(settings.seed, OF_UNIT, number, unit_number).draw()
            writer.add(engine.pair(stream), engine.fill)
            unit_bytes = sum(len(text.data) for text in unit)
            for text in unit:
                digest.update(text.data)
            size += unit_bytes
            report(unit_bytes)
        writer.finish()
        return Made(counts, writer.rows, size, digest.hexdigest())


def add_unit(engine: NativeEngine, settings: TokenSettings, unit: list[Text]) -> Counts:
    engine.clear()
    for text in unit:
        engine.add(text.data, text.style | (SENTENCE_PER_LINE if settings.has_sentence_per_line else 0))
    return engine.counts()


def text_digest(work: ShardWork, number: int) -> str:
    digest = hashlib.sha256()
    for piece in work.shards[number]:
        for at in range(piece.start, piece.stop, READ_BYTES):
            digest.update(work.source.read(piece.name, at, min(READ_BYTES, piece.stop - at)))
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return a file's SHA-256. hashlib.file_digest needs Python 3.11, and Gaudi's container image has
    3.10."""
    digest = hashlib.sha256()
    with BufferedReader(open_regular(path)) as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


# Many shards by one process or several. Which worker makes which shard, and when, changes nothing.
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


# How far a preparation is, on stderr: one line rewritten on a terminal, else a plain line now and then.
TERMINAL_SECONDS = 0.5
PLAIN_SECONDS = 10.0
MB = 1e6


@dataclass(slots=True, kw_only=True)
class PreparationProgress:
    """Print how far a preparation has come."""

    name: str = "prepare_bert"
    total_bytes: int
    shards: int
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    now: Callable[[], float] = time.monotonic
    made_bytes: int = 0
    kept_bytes: int = 0
    finished_shards: int = 0
    started: float = field(init=False)
    told: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.told = self.now()

    def say(self, line: str) -> None:
        print(f"{self.name}: {line}", file=self.stream, flush=True)

    def made(self, count: int) -> None:
        self.made_bytes += count
        self._tell_if_due()

    def finished(self, number: int, text_bytes: int, was_kept: bool) -> None:
        self.finished_shards += 1
        if was_kept:
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
        parts = [
            f"{share:.0%} of {self.total_bytes / MB:.1f} MB",
            f"{self.finished_shards}/{self.shards} shards",
            f"{rate / MB:.1f} MB/s",
        ]
        if done < self.total_bytes and rate:
            parts.append(f"{in_words((self.total_bytes - done) / rate)} left")
        return ", ".join(parts)

    @property
    def rate(self) -> float:
        """Return bytes per second of what is made now: what was kept took no time."""
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
