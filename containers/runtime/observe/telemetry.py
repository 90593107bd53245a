"""One JSON line a step, TensorBoard files next to it, and the heartbeat that tells the launcher a rank lives.

A new measure is one field of Step. Nothing here stops a training: what cannot be written is said once.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.observe.progress import STARTING, Heartbeat

STEPS_NAME = "steps.jsonl"
HELD_OUT_NAME = "held_out.jsonl"
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MOST_LINE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """Record the measurements of one step; None is what this training does not measure."""

    step: int
    loss: float
    learning_rate: float
    seconds: float
    own_seconds: float | None = None  # of them, before it waits for another rank: tells who is slow
    gradient_norm: float | None = None
    loss_scale: float | None = None  # of a training in fp16
    sequences_per_second: float | None = None
    tokens_per_second: float | None = None
    tokens_per_dollar: float | None = None  # on demand, where the price is known
    mfu: float | None = None  # model FLOPs over the device's published peak
    memory_bytes: int | None = None  # the most that was held at once


class Telemetry:
    """Write steps and events to files if `folder` is given (commonly on rank 0); every rank sends
    heartbeats."""

    def __init__(
        self,
        folder: Path | None,
        *,
        attempt: int,
        progress: Path | None = None,
        tensorboard: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._attempt = attempt
        self._beat = Heartbeat(progress)
        self._clock = clock
        self._lines: dict[str, _Sink] = {}  # by what TensorBoard's tags begin with
        self._events: _Sink | None = None
        if folder is not None:
            names = {"train": STEPS_NAME, "held_out": HELD_OUT_NAME}
            self._lines = {tag: _Sink(folder / name, ends_lines=True) for tag, name in names.items()}
        if folder is not None and tensorboard:
            now = clock()
            # The name that TensorBoard looks for; attempt and process keep two writers apart.
            name = f"events.out.tfevents.{int(now)}.attempt-{attempt}.{os.getpid()}"
            self._events = _Sink(folder / name, first=first_record(now))
        self.beat(STARTING)

    @classmethod
    def of(cls, contract: LaunchContract, *, tensorboard: bool = True) -> Telemetry:
        """Open the telemetry of this rank. Rank 0 writes below the contract's logs, if it says where they
        are."""
        given = os.environ.get(variables.PROGRESS_FILE)
        folder = Path(contract.logs) if contract.logs and contract.rank == 0 else None
        progress = Path(given) if given else None
        return cls(folder, attempt=contract.attempt, progress=progress, tensorboard=tensorboard)

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sink in (*self._lines.values(), self._events):
            if sink is not None:
                sink.close()

    def record(self, step: StepRecord) -> None:
        self._beat.at(str(step.step), step.own_seconds)
        known = {name: value for name, value in asdict(step).items() if value is not None}
        self._append("train", known.pop("step"), known)

    def evaluated(self, step: int, measures: Mapping[str, float]) -> None:
        """Record what the model loses on rows that it is not trained on, after so many steps."""
        self._append("held_out", step, measures)

    def beat(self, where: str) -> None:
        """Send a heartbeat. The launcher ends a rank that sends none for too long: call it in long work
        between steps."""
        self._beat.at(where)

    def _append(self, tag: str, step: int, measures: Mapping[str, float]) -> None:
        now = self._clock()
        if tag in self._lines:
            self._lines[tag].append(self._encoded({"step": step, **measures}, now))
        if self._events is not None:
            scalars = {f"{tag}/{name}": float(value) for name, value in measures.items()}
            self._events.append(scalars_record(now, max(0, step), scalars))

    def _encoded(self, known: Mapping[str, float], now: float) -> bytes:
        record: dict[str, object] = {"time": round(now, 3), "attempt": self._attempt}
        odd = {name: str(value) for name, value in known.items() if not math.isfinite(value)}
        record |= {name: None if name in odd else value for name, value in known.items()}
        if odd:  # JSON has no NaN: null, and what it was
            record["not_finite"] = odd
        return json.dumps(record, allow_nan=False).encode() + b"\n"


class _Sink:
    """Append whole records; after a failure it goes on with the next one, and says so once."""

    def __init__(self, path: Path, *, first: bytes = b"", ends_lines: bool = False) -> None:
        self._path = path
        self._first = first
        self._ends_lines = ends_lines
        self._descriptor: int | None = None
        self._failing = False

    def append(self, record: bytes) -> None:
        try:
            if self._descriptor is None:
                self._open()
            self._write(record)
        except OSError as error:
            if not self._failing:
                print(f"telemetry is not written: {error}; training continues", file=sys.stderr, flush=True)
            self._failing = True
        else:
            self._failing = False

    def close(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, _APPEND, 0o644)
        if self._ends_lines:
            _drop_torn_line(self._path)
        if self._first:
            self._write(self._first)

    def _write(self, record: bytes) -> None:
        """Append in one call, so that a crash tears at most this record; undo what a full disk took of it."""
        assert self._descriptor is not None
        before = os.fstat(self._descriptor).st_size
        written = 0
        try:
            while written < len(record):
                written += os.write(self._descriptor, record[written:])
        except OSError:
            if written:
                os.ftruncate(self._descriptor, before)
            raise


def _drop_torn_line(path: Path) -> None:
    """Drop the part of a line that a crash left: it would spoil the next one."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, size - _MOST_LINE_BYTES))
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(start + tail.rfind(b"\n") + 1)


# TensorBoard's event files, as far as scalars need them, without TensorBoard.
# Records are framed as TFRecords: length, masked crc32c, data, masked crc32c
# (tensorflow/core/lib/io/record_writer.h). They hold Event messages (tensorflow/core/util/event.proto).
_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_MASK_DELTA = 0xA282EAD8
_VERSION = b"brain.Event:2"  # the first record of every file

# Field number and wire type in one byte. Wire types: 0 varint, 1 eight bytes, 2 counted, 5 four bytes.
_WALL_TIME = b"\x09"
_STEP = b"\x10"
_FILE_VERSION = b"\x1a"
_SUMMARY = b"\x2a"
_VALUE = b"\x0a"
_TAG = b"\x0a"
_SIMPLE_VALUE = b"\x15"


def first_record(wall_time: float) -> bytes:
    return _record(_WALL_TIME + struct.pack("<d", wall_time) + _FILE_VERSION + _counted(_VERSION))


def scalars_record(wall_time: float, step: int, scalars: Mapping[str, float]) -> bytes:
    values = b""
    for tag, value in scalars.items():
        scalar = _TAG + _counted(tag.encode()) + _SIMPLE_VALUE + struct.pack("<f", _as_float32(value))
        values += _VALUE + _counted(scalar)
    event = _WALL_TIME + struct.pack("<d", wall_time) + _STEP + _varint(step) + _SUMMARY + _counted(values)
    return _record(event)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table_entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (_POLYNOMIAL if index & 1 else 0)
    return index


_TABLE = tuple(_table_entry(index) for index in range(256))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked_crc(length) + data + masked_crc(data)


def masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF)


def _as_float32(value: float) -> float:
    """Return infinity for what a float32 cannot hold (struct refuses it); a chart shows it."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def _counted(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
