"""Copy metrics from a job's files to its log: metrics.jsonl by contract, and TensorBoard's scalars.

The log leaves the node, but files do not. A thread looks every few seconds, and skips files that it cannot
read. telemetry.py writes the same two formats.
"""

from __future__ import annotations

import json
import math
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.observe.telemetry import masked_crc

RECORDS_NAME = "metrics.jsonl"
_EVENTS, _OURS = "events.out.tfevents.", ".attempt-"  # telemetry.py's own: the log has those steps already
_EVERY_SECONDS = 5.0
_LAST_SECONDS = 5.0  # for what was written last, of a file system that may not answer
_MOST_FILES = 64
_MOST_BYTES = 4 << 20  # of one file at one look
_MOST_RECORD_BYTES = 64 << 10  # a scalar is small, a picture is not
_MOST_LINES = 50  # at one look: more are thinned evenly
_MOST_METRICS = 100  # of one step

_FIXED = {1: 8, 5: 4}  # bytes of a value, by its wire type

Row = dict[str, float]  # step, and metrics by name


@contextmanager
def relayed(contract: LaunchContract, show: Callable[[str], None]) -> Iterator[None]:
    """Show a line of JSON for each step that the job writes into its folder of logs, while this is open."""
    if contract.rank or not contract.logs or "://" in contract.logs:
        yield
        return
    files = MetricFiles(Path(contract.logs))
    closing = threading.Event()

    def run() -> None:
        while True:
            is_last = closing.wait(_EVERY_SECONDS)
            for row in thinned(files.new_rows()):
                show(json.dumps(row))
            if is_last:
                return

    thread = threading.Thread(target=run, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        thread.join(_LAST_SECONDS)


class MetricFiles:
    """Remember how far each file was read. What lies there from the beginning is of an earlier attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        while list(self._new()):
            pass

    def new_rows(self) -> list[Row]:
        """Return what was written since the last call, one row a step."""
        rows: dict[float, Row] = {}
        for row in self._new():
            known = rows.setdefault(row["step"], {})
            if len(known) < _MOST_METRICS:
                known |= row
        return list(rows.values())

    def _new(self) -> Iterator[Row]:
        for path in self._files():
            with suppress(OSError), _regular(path) as file:
                file.seek(self._read.get(path, 0))
                read = _records if path.name == RECORDS_NAME else _scalars
                yield from read(file)
                self._read[path] = file.tell()

    def _files(self) -> list[Path]:
        found: list[Path] = []
        with suppress(OSError):
            for path in self._folder.rglob("*"):
                is_event = path.name.startswith(_EVENTS) and _OURS not in path.name
                if is_event or path.name == RECORDS_NAME:
                    found.append(path)
                if len(found) == _MOST_FILES:
                    break
        return sorted(found)


def thinned(rows: list[Row]) -> list[Row]:
    """Return at most so many rows as a log bears at once, evenly, with the last."""
    if len(rows) <= _MOST_LINES:
        return rows
    return [rows[(number + 1) * len(rows) // _MOST_LINES - 1] for number in range(_MOST_LINES)]


@contextmanager
def _regular(path: Path) -> Iterator[BinaryIO]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file")
        yield file


def _records(file: BinaryIO) -> Iterator[Row]:
    """Read whole lines; the rest of a line may still come."""
    begin = file.tell()
    data = file.read(_MOST_BYTES)
    whole = data.rfind(b"\n") + 1
    if not whole and len(data) == _MOST_BYTES:
        whole = len(data)  # no line at all
    file.seek(begin + whole)
    for line in data[:whole].splitlines():
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and (row := _row(record)):
                yield row


def _row(record: Mapping[str, object]) -> Row:
    step = record.get("step")
    if not isinstance(step, int | float) or not math.isfinite(step):
        return {}
    known = {name: value for name, value in record.items() if type(value) in (int, float)}
    return dict(list(known.items())[:_MOST_METRICS]) if len(known) > 1 else {}  # type: ignore[arg-type]  # numbers


def _scalars(file: BinaryIO) -> Iterator[Row]:
    """Read whole records of an event file; the rest of one may still come, and a damaged one ends it."""
    begin, size = file.tell(), os.fstat(file.fileno()).st_size
    here = begin
    while here + 12 <= size and here - begin < _MOST_BYTES:
        head = file.read(12)
        (length,) = struct.unpack("<Q", head[:8])
        if masked_crc(head[:8]) != head[8:]:
            file.seek(size)
            return
        if here + length + 16 > size:
            break
        data = file.read(length) if length <= _MOST_RECORD_BYTES else b""
        here += length + 16
        file.seek(here)
        with suppress(IndexError, ValueError, struct.error):
            if row := _event(data):
                yield row
    file.seek(here)


def _event(data: bytes) -> Row:
    """Read an Event message: its step is field 2, its summary field 5, whose field 1 are values."""
    fields = list(_fields(data))
    step = next((value for number, value in fields if number == 2 and isinstance(value, int)), 0)
    row: Row = {}
    for number, summary in fields:
        if number != 5 or not isinstance(summary, bytes):
            continue
        for kind, value in _fields(summary):
            if kind == 1 and isinstance(value, bytes):
                row |= _scalar(dict(_fields(value)))
    return {"step": step, **row} if row and step < 1 << 53 else {}


def _scalar(fields: Mapping[int, int | bytes]) -> Row:
    tag, value = fields.get(1), fields.get(2)
    if not isinstance(tag, bytes) or not isinstance(value, bytes) or len(value) != 4:
        return {}
    return {tag.decode("utf-8", errors="replace"): struct.unpack("<f", value)[0]}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message of Protocol Buffers; bytes are as they lie there."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(f"no field is of kind {kind}")
        if at + length > len(data):
            raise ValueError("a field ends behind its message")
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number has no end")
